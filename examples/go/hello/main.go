// Command hello sends a message to a queue and receives it.
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

const queue = "example-hello"

func main() {
	time.AfterFunc(30*time.Second, func() { log.Fatal("no end after 30 seconds") })
	connection, err := amqp.Dial(cmp.Or(os.Getenv("AMQP_URL"), "amqp://guest:guest@localhost:5672/%2f"))
	must(err)
	defer connection.Close()
	channel, err := connection.Channel()
	must(err)
	_, err = channel.QueueDeclare(queue, true, false, false, false, nil)
	must(err)

	// The default exchange has no name. It takes a message to the queue that is named by the routing key.
	message := amqp.Publishing{Body: []byte("Hello, World!")}
	must(channel.PublishWithContext(context.Background(), "", queue, false, false, message))
	fmt.Println("sent: Hello, World!")

	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	must(err)
	delivery := <-deliveries
	fmt.Printf("received: %s\n", delivery.Body)
	// The broker keeps a message until it is acknowledged.
	must(delivery.Ack(false))

	_, err = channel.QueueDelete(queue, false, false, false)
	must(err)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
