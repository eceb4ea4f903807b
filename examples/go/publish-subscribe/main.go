// Command publish-subscribe publishes news to every subscriber through a fanout exchange.
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

const exchange = "example-news"

func main() {
	time.AfterFunc(30*time.Second, func() { log.Fatal("no end after 30 seconds") })
	connection, err := amqp.Dial(cmp.Or(os.Getenv("AMQP_URL"), "amqp://guest:guest@localhost:5672/%2f"))
	must(err)
	defer connection.Close()
	channel, err := connection.Channel()
	must(err)
	must(channel.ExchangeDeclare(exchange, "fanout", true, false, false, false, nil))

	first, second := subscribe(channel), subscribe(channel)

	for _, news := range []string{"rain on Saturday", "sun on Sunday"} {
		message := amqp.Publishing{Body: []byte(news)}
		must(channel.PublishWithContext(context.Background(), exchange, "", false, false, message))
		fmt.Println("published:", news)
	}

	for range 2 {
		fmt.Printf("first subscriber: %s\n", (<-first).Body)
	}
	for range 2 {
		fmt.Printf("second subscriber: %s\n", (<-second).Body)
	}
	must(channel.ExchangeDelete(exchange, false, false))
}

// A queue for each subscriber. An exclusive queue goes with its connection; the broker makes up its name.
func subscribe(channel *amqp.Channel) <-chan amqp.Delivery {
	queue, err := channel.QueueDeclare("", false, false, true, false, nil)
	must(err)
	must(channel.QueueBind(queue.Name, "", exchange, false, nil))
	deliveries, err := channel.Consume(queue.Name, "", true, false, false, false, nil)
	must(err)
	return deliveries
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
