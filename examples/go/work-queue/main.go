// Command work-queue hands tasks to a worker so that no task is lost when the broker, the publisher or the worker ends.
package main

import (
	"cmp"
	"fmt"
	"log"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const queue = "example-tasks"

func main() {
	time.AfterFunc(30*time.Second, func() { log.Fatal("no end after 30 seconds") })
	connection, err := amqp.Dial(cmp.Or(os.Getenv("AMQP_URL"), "amqp://guest:guest@localhost:5672/%2f"))
	must(err)
	defer connection.Close()
	channel, err := connection.Channel()
	must(err)
	// Durable: queue and persistent messages are there after a restart of the broker.
	_, err = channel.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"})
	must(err)

	// Publisher confirms: the wait is over once the task is stored.
	must(channel.Confirm(false))
	for number := range 3 {
		task := fmt.Sprintf("task %d", number+1)
		message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(task)}
		confirmation, err := channel.PublishWithDeferredConfirm("", queue, false, false, message)
		must(err)
		if !confirmation.Wait() {
			log.Fatal("the broker could not take the task")
		}
		fmt.Println("confirmed:", task)
	}

	// Prefetch: a worker has one task at a time, so several workers share the work evenly.
	must(channel.Qos(1, 0, false))
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	must(err)
	for range 3 {
		task := <-deliveries
		fmt.Printf("done: %s\n", task.Body)
		// After the work, not before: an unacknowledged task goes to another worker when this one ends.
		must(task.Ack(false))
	}

	state, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	must(err)
	fmt.Println("left in the queue:", state.Messages)
	_, err = channel.QueueDelete(queue, false, false, false)
	must(err)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
