// Command dead-letter-retry tries an order three times, with a pause between the attempts, and then puts it aside.
package main

import (
	"cmp"
	"fmt"
	"log"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	orders      = "example-orders"
	waiting     = "example-orders-waiting"
	failed      = "example-orders-failed"
	attemptsMax = 3
)

func main() {
	time.AfterFunc(30*time.Second, func() { log.Fatal("no end after 30 seconds") })
	connection, err := amqp.Dial(cmp.Or(os.Getenv("AMQP_URL"), "amqp://guest:guest@localhost:5672/%2f"))
	must(err)
	defer connection.Close()
	channel, err := connection.Channel()
	must(err)
	must(channel.Confirm(false))
	// A rejected order goes to the queue of those that wait ...
	_, err = channel.QueueDeclare(orders, true, false, false, false, amqp.Table{
		"x-queue-type":              "quorum",
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": waiting,
	})
	must(err)
	// ... where nobody consumes. It expires after 300 ms and goes back.
	_, err = channel.QueueDeclare(waiting, true, false, false, false, amqp.Table{
		"x-message-ttl":             300,
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": orders,
	})
	must(err)
	_, err = channel.QueueDeclare(failed, true, false, false, false, nil)
	must(err)

	publish(channel, orders, []byte("order 7"))
	fmt.Println("sent: order 7")

	deliveries, err := channel.Consume(orders, "", false, false, false, false, nil)
	must(err)
	for order := range deliveries {
		attempt := attemptsBefore(order) + 1
		if attempt < attemptsMax {
			fmt.Printf("attempt %d failed: %s\n", attempt, order.Body)
			must(order.Reject(false))
			continue
		}
		fmt.Printf("attempt %d failed, given up: %s\n", attempt, order.Body)
		// The copy is confirmed before the original is acknowledged, so the order is always in one of the queues.
		publish(channel, failed, order.Body)
		must(order.Ack(false))
		break
	}

	order, isThere, err := channel.Get(failed, true)
	must(err)
	if !isThere {
		log.Fatal("the order is not among the failed ones")
	}
	fmt.Printf("put aside: %s\n", order.Body)
	for _, queue := range []string{orders, waiting, failed} {
		_, err = channel.QueueDelete(queue, false, false, false)
		must(err)
	}
}

func publish(channel *amqp.Channel, queue string, body []byte) {
	message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: body}
	confirmation, err := channel.PublishWithDeferredConfirm("", queue, false, false, message)
	must(err)
	if !confirmation.Wait() {
		log.Fatal("the broker could not take the order")
	}
}

// The broker counts in the header x-death how often a message left each queue.
func attemptsBefore(order amqp.Delivery) int64 {
	var attempts int64
	deaths, _ := order.Headers["x-death"].([]any)
	for _, death := range deaths {
		entry := death.(amqp.Table)
		if entry["queue"] == orders {
			attempts += entry["count"].(int64)
		}
	}
	return attempts
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
