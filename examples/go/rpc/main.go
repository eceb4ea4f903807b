// Command rpc asks a server for the squares of numbers; answers come back by direct reply-to, without a queue for them.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	queue   = "example-squares"
	replies = "amq.rabbitmq.reply-to"
)

func main() {
	time.AfterFunc(30*time.Second, func() { log.Fatal("no end after 30 seconds") })
	connection, err := amqp.Dial(cmp.Or(os.Getenv("AMQP_URL"), "amqp://guest:guest@localhost:5672/%2f"))
	must(err)
	defer connection.Close()

	// The server, which would be another program.
	server, err := connection.Channel()
	must(err)
	_, err = server.QueueDeclare(queue, true, false, false, false, nil)
	must(err)
	questions, err := server.Consume(queue, "", false, false, false, false, nil)
	must(err)
	go serve(server, questions)

	// The client. It consumes from the pseudo-queue first, without acknowledgements, and asks on the same channel.
	client, err := connection.Channel()
	must(err)
	answers, err := client.Consume(replies, "", true, false, false, false, nil)
	must(err)
	for turn, number := range []int{3, 12} {
		fmt.Println("asked: the square of", number)
		// The id tells which answer belongs to which question.
		id := strconv.Itoa(turn)
		question := amqp.Publishing{ReplyTo: replies, CorrelationId: id, Body: []byte(strconv.Itoa(number))}
		must(client.PublishWithContext(context.Background(), "", queue, false, false, question))
		answer := <-answers
		if answer.CorrelationId != id {
			log.Fatal("an answer to another question")
		}
		fmt.Printf("answered: %s\n", answer.Body)
	}
	_, err = client.QueueDelete(queue, false, false, false)
	must(err)
}

func serve(server *amqp.Channel, questions <-chan amqp.Delivery) {
	for question := range questions {
		number, err := strconv.Atoi(string(question.Body))
		must(err)
		answer := amqp.Publishing{CorrelationId: question.CorrelationId, Body: []byte(strconv.Itoa(number * number))}
		must(server.PublishWithContext(context.Background(), "", question.ReplyTo, false, false, answer))
		must(question.Ack(false))
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
