// Command topics sends messages to queues by patterns of their routing keys.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const exchange = "example-topics"

func main() {
	time.AfterFunc(30*time.Second, func() { log.Fatal("no end after 30 seconds") })
	connection, err := amqp.Dial(cmp.Or(os.Getenv("AMQP_URL"), "amqp://guest:guest@localhost:5672/%2f"))
	must(err)
	defer connection.Close()
	channel, err := connection.Channel()
	must(err)
	must(channel.ExchangeDeclare(exchange, "topic", true, false, false, false, nil))

	// A routing key is words with dots between them. `*` stands for one word, `#` for any number of words.
	orders, europe := subscribe(channel, "orders.#"), subscribe(channel, "*.eu.*")

	for _, key := range []string{"orders.eu.paid", "orders.us.cancelled", "invoices.eu.sent"} {
		must(channel.PublishWithContext(context.Background(), exchange, key, false, false, amqp.Publishing{}))
		fmt.Println("published:", key)
	}

	for range 2 {
		fmt.Println("received by orders.#:", (<-orders).RoutingKey)
	}
	for range 2 {
		fmt.Println("received by *.eu.*:", (<-europe).RoutingKey)
	}
	must(channel.ExchangeDelete(exchange, false, false))
}

func subscribe(channel *amqp.Channel, pattern string) <-chan amqp.Delivery {
	queue, err := channel.QueueDeclare("", false, false, true, false, nil)
	must(err)
	must(channel.QueueBind(queue.Name, pattern, exchange, false, nil))
	deliveries, err := channel.Consume(queue.Name, "", true, false, false, false, nil)
	must(err)
	return deliveries
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
