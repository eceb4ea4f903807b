// Command stream appends events to a stream and reads them from the third one on. Reading takes nothing away from a
// stream.
package main

import (
	"cmp"
	"fmt"
	"log"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const stream = "example-events"

func main() {
	time.AfterFunc(30*time.Second, func() { log.Fatal("no end after 30 seconds") })
	connection, err := amqp.Dial(cmp.Or(os.Getenv("AMQP_URL"), "amqp://guest:guest@localhost:5672/%2f"))
	must(err)
	defer connection.Close()
	channel, err := connection.Channel()
	must(err)
	must(channel.Confirm(false))
	kind := amqp.Table{"x-queue-type": "stream", "x-max-age": "1D"}
	_, err = channel.QueueDeclare(stream, true, false, false, false, kind)
	must(err)

	for number := range 5 {
		event := fmt.Sprintf("event %d", number)
		message := amqp.Publishing{Body: []byte(event)}
		confirmation, err := channel.PublishWithDeferredConfirm("", stream, false, false, message)
		must(err)
		if !confirmation.Wait() {
			log.Fatal("the broker could not take the event")
		}
		fmt.Println("appended:", event)
	}

	// Offsets count from 0. An offset may also be "first", "last", "next", a timestamp, or an age such as "1h".
	// Readers of streams need a prefetch, and acknowledgements to be given more.
	must(channel.Qos(10, 0, false))
	from := amqp.Table{"x-stream-offset": int64(2)}
	deliveries, err := channel.Consume(stream, "", false, false, false, false, from)
	must(err)
	for range 3 {
		event := <-deliveries
		fmt.Printf("read at offset %d: %s\n", event.Headers["x-stream-offset"], event.Body)
		must(event.Ack(false))
	}
	_, err = channel.QueueDelete(stream, false, false, false)
	must(err)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
