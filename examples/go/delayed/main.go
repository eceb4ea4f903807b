// Command delayed sends messages that are delivered some time later.
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

const (
	exchange = "example-delays"
	queue    = "example-kitchen"
)

func main() {
	time.AfterFunc(30*time.Second, func() { log.Fatal("no end after 30 seconds") })
	connection, err := amqp.Dial(cmp.Or(os.Getenv("AMQP_URL"), "amqp://guest:guest@localhost:5672/%2f"))
	must(err)
	defer connection.Close()
	channel, err := connection.Channel()
	must(err)
	// The argument is the type that the exchange has otherwise: it decides which queues a message goes to.
	kind := amqp.Table{"x-delayed-type": "direct"}
	must(channel.ExchangeDeclare(exchange, "x-delayed-message", true, false, false, false, kind))
	_, err = channel.QueueDeclare(queue, true, false, false, false, nil)
	must(err)
	must(channel.QueueBind(queue, "kitchen", exchange, false, nil))

	send(channel, "coffee", 750)
	send(channel, "tea", 1500)
	send(channel, "water", 0)

	deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
	must(err)
	for range 3 {
		fmt.Printf("received: %s\n", (<-deliveries).Body)
	}
	_, err = channel.QueueDelete(queue, false, false, false)
	must(err)
	must(channel.ExchangeDelete(exchange, false, false))
}

func send(channel *amqp.Channel, drink string, delayMs int32) {
	message := amqp.Publishing{Headers: amqp.Table{"x-delay": delayMs}, Body: []byte(drink)}
	must(channel.PublishWithContext(context.Background(), exchange, "kitchen", false, false, message))
	fmt.Printf("sent: %s, due in %d ms\n", drink, delayMs)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
