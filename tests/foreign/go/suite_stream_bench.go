package main

// What the cases of the stream client work with: an environment, streams to delete afterwards, and readers whose
// messages wait to be taken.

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/amqp"
	streamed "github.com/rabbitmq/rabbitmq-stream-go-client/pkg/message"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"
)

// streamBench is one environment, and the streams and super streams to delete at the end.
type streamBench struct {
	*bench
	environment    *stream.Environment
	streams, super []string
	consumers      []*stream.SuperStreamConsumer
}

func withStreams(act func(*streamBench)) func(*bench) {
	return func(b *bench) {
		it := &streamBench{bench: b, environment: environment(streamPort, nil)}
		defer it.close()
		act(it)
	}
}

// environment connects to this port and to no other, whatever the broker advertises; `change` has the last word.
func environment(port string, change func(*stream.EnvironmentOptions)) *stream.Environment {
	parts, err := url.Parse(uri)
	must(err)
	broker := parts.Hostname()
	number, err := strconv.Atoi(port)
	must(err)
	password, _ := parts.User.Password()
	options := stream.NewEnvironmentOptions().SetHost(broker).SetPort(number).
		SetUser(parts.User.Username()).SetPassword(password).
		SetAddressResolver(stream.AddressResolver{Host: broker, Port: number})
	if change != nil {
		change(options)
	}
	made, err := stream.NewEnvironment(options)
	must(err)
	return made
}

func (b *streamBench) close() {
	for _, consumer := range b.consumers {
		_ = consumer.Close()
	}
	for _, name := range b.streams {
		_ = b.environment.DeleteStream(name)
	}
	for _, name := range b.super {
		_ = b.environment.DeleteSuperStream(name)
	}
	_ = b.environment.Close()
}

func (b *streamBench) stream() string {
	name := b.fresh("stream")
	must(b.environment.DeclareStream(name, stream.NewStreamOptions()))
	b.streams = append(b.streams, name)
	return name
}

func (b *streamBench) superStream(options stream.SuperStreamOptions) string {
	name := b.fresh("super")
	must(b.environment.DeclareSuperStream(name, options))
	b.super = append(b.super, name)
	return name
}

// writer is a producer whose confirms are counted.
type writer struct {
	*stream.Producer
	confirmed chan []*stream.ConfirmationStatus
}

func (b *streamBench) writer(name string, options *stream.ProducerOptions) *writer {
	if options == nil {
		options = stream.NewProducerOptions()
	}
	producer, err := b.environment.NewProducer(name, options.SetBatchPublishingDelay(5))
	must(err)
	made := &writer{producer, make(chan []*stream.ConfirmationStatus, 10_000)}
	source := producer.NotifyPublishConfirmation()
	go func() {
		for statuses := range source {
			made.confirmed <- statuses
		}
		close(made.confirmed)
	}()
	return made
}

// await takes confirms until `count` messages have theirs.
func (w *writer) await(count int) {
	deadline := time.After(waitTime)
	for seen := 0; seen < count; {
		select {
		case statuses, open := <-w.confirmed:
			if !open {
				panic(fmt.Sprintf("the producer ended after %d confirms of %d", seen, count))
			}
			for _, status := range statuses {
				must(status.GetError())
				expect(status.IsConfirmed(), true, "confirmed")
			}
			seen += len(statuses)
		case <-deadline:
			panic(fmt.Sprintf("%d confirms of %d in time", seen, count))
		}
	}
}

// send publishes and waits until all are confirmed.
func (w *writer) send(bodies ...string) {
	for _, body := range bodies {
		must(w.Send(amqp.NewMessage([]byte(body))))
	}
	w.await(len(bodies))
}

// publish makes a producer for these messages alone.
func (b *streamBench) publish(name string, bodies ...string) {
	writer := b.writer(name, nil)
	writer.send(bodies...)
	must(writer.Close())
}

// taken is a message as a handler was given it.
type taken struct {
	stream, body string
	offset       int64
	message      *amqp.Message
}

type inbox chan taken

func newInbox() inbox { return make(inbox, 100_000) }

func (in inbox) put(context stream.ConsumerContext, message *amqp.Message) {
	body := ""
	for _, part := range message.Data {
		body += string(part)
	}
	in <- taken{context.Consumer.GetStreamName(), body, context.Consumer.GetOffset(), message}
}

func (in inbox) take(count int) []taken {
	var all []taken
	for deadline := time.After(waitTime); len(all) < count; {
		select {
		case one := <-in:
			all = append(all, one)
		case <-deadline:
			panic(fmt.Sprintf("%d messages of %d in time", len(all), count))
		}
	}
	return all
}

// expect takes exactly these bodies, in this order.
func (in inbox) expect(what string, expected ...string) {
	for at, one := range in.take(len(expected)) {
		expect(one.body, expected[at], fmt.Sprintf("%s: message %d", what, at))
	}
}

func (in inbox) quiet() {
	select {
	case one := <-in:
		panic("one message too many: " + one.body)
	case <-time.After(quietTime):
	}
}

type reader struct {
	*stream.Consumer
	inbox
}

func (b *streamBench) reader(name string, offset stream.OffsetSpecification, change func(*stream.ConsumerOptions)) reader {
	in := newInbox()
	options := stream.NewConsumerOptions().SetOffset(offset)
	if change != nil {
		change(options)
	}
	consumer, err := b.environment.NewConsumer(name, in.put, options)
	must(err)
	return reader{consumer, in}
}

// stored waits until this is the offset that the stream keeps for the reader's name.
func (b *streamBench) stored(reader, name string, expected int64) {
	for deadline := time.Now().Add(waitTime); ; time.Sleep(20 * time.Millisecond) {
		offset, err := b.environment.QueryOffset(reader, name)
		if err == nil && offset == expected {
			return
		}
		if time.Now().After(deadline) {
			panic(fmt.Sprintf("stored offset: saw %d (%v), expected %d", offset, err, expected))
		}
	}
}

// keyed is a message whose key and filter value stand in an application property.
func keyed(key, body string) streamed.StreamMessage {
	made := amqp.NewMessage([]byte(body))
	made.ApplicationProperties = map[string]any{"key": key}
	return made
}

func keyOf(message streamed.StreamMessage) string {
	return message.GetApplicationProperties()["key"].(string)
}
