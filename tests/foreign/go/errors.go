package main

// What RabbitMQ refuses, as amqp091-go tells it; the full table is with pika.

import (
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

type refusal struct {
	name, behaviour string
	code            int
	text            string // QUEUE and ABSENT stand for names
	act             func(channel *amqp.Channel, queue, absent string) error
}

func settled(channel *amqp.Channel, queue string, closed chan *amqp.Error) error {
	if _, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil); err == nil {
		return nil
	}
	return <-closed
}

// afterwards makes a round trip, so that the error of an asynchronous method has come.
func afterwards(channel *amqp.Channel, queue string, act func() error) error {
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	if err := act(); err != nil {
		return err
	}
	return settled(channel, queue, closed)
}

var refusals = []refusal{
	{"passive-unknown-queue", "passive declare of an unknown queue", 404, "NOT_FOUND - no queue 'ABSENT' in vhost '/'",
		func(channel *amqp.Channel, _, absent string) error {
			_, err := channel.QueueDeclarePassive(absent, true, false, false, false, nil)
			return err
		}},
	{"redeclare-durable", "redeclaring a durable queue as transient", 406,
		"PRECONDITION_FAILED - inequivalent arg 'durable' for queue 'QUEUE' in vhost '/': received 'false' but current is 'true'",
		func(channel *amqp.Channel, queue, _ string) error {
			_, err := channel.QueueDeclare(queue, false, false, false, false, nil)
			return err
		}},
	{"redeclare-argument", "redeclaring with another argument", 406,
		"PRECONDITION_FAILED - inequivalent arg 'x-max-length' for queue 'QUEUE' in vhost '/': received the value '5' of type 'long' but current is none",
		func(channel *amqp.Channel, queue, _ string) error {
			_, err := channel.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-max-length": int64(5)})
			return err
		}},
	{"reserved-name", "declaring a queue whose name begins amq.", 403,
		"ACCESS_REFUSED - queue name 'amq.foreign' contains reserved prefix 'amq.*'",
		func(channel *amqp.Channel, _, _ string) error {
			_, err := channel.QueueDeclare("amq.foreign", true, false, false, false, nil)
			return err
		}},
	{"bind-unknown-exchange", "binding to an unknown exchange", 404, "NOT_FOUND - no exchange 'ABSENT' in vhost '/'",
		func(channel *amqp.Channel, queue, absent string) error {
			return channel.QueueBind(queue, "key", absent, false, nil)
		}},
	{"consume-unknown", "consuming from an unknown queue", 404, "NOT_FOUND - no queue 'ABSENT' in vhost '/'",
		func(channel *amqp.Channel, _, absent string) error {
			_, err := channel.Consume(absent, "", false, false, false, false, nil)
			return err
		}},
	{"exclusive-consumer", "a second consumer beside an exclusive one", 403,
		"ACCESS_REFUSED - queue 'QUEUE' in vhost '/' in exclusive use",
		func(channel *amqp.Channel, queue, _ string) error {
			if _, err := channel.Consume(queue, "", false, true, false, false, nil); err != nil {
				return err
			}
			_, err := channel.Consume(queue, "", false, false, false, false, nil)
			return err
		}},
	{"ack-unknown", "acknowledging an unknown delivery tag", 406, "PRECONDITION_FAILED - unknown delivery tag 77",
		func(channel *amqp.Channel, queue, _ string) error {
			return afterwards(channel, queue, func() error { return channel.Ack(77, false) })
		}},
	{"ack-twice", "acknowledging a delivery twice", 406, "PRECONDITION_FAILED - unknown delivery tag 1",
		func(channel *amqp.Channel, queue, _ string) error {
			publish(channel, "", queue, "x")
			delivery, _, err := channel.Get(queue, false)
			must(err)
			must(delivery.Ack(false))
			return afterwards(channel, queue, func() error { return delivery.Ack(false) })
		}},
	{"publish-unknown-exchange", "publishing to an unknown exchange", 404, "NOT_FOUND - no exchange 'ABSENT' in vhost '/'",
		func(channel *amqp.Channel, queue, absent string) error {
			return afterwards(channel, queue, func() error {
				return channel.Publish(absent, "", false, false, amqp.Publishing{})
			})
		}},
	{"immediate", "publishing with immediate", 540, "NOT_IMPLEMENTED - immediate=true",
		func(channel *amqp.Channel, queue, _ string) error {
			return afterwards(channel, queue, func() error {
				return channel.Publish("", queue, false, true, amqp.Publishing{})
			})
		}},
	{"unknown-exchange-type", "declaring an exchange of an unknown type", 406,
		"PRECONDITION_FAILED - unknown exchange type 'no-such-type'",
		func(channel *amqp.Channel, _, absent string) error {
			return channel.ExchangeDeclare(absent, "no-such-type", false, false, false, false, nil)
		}},
}

func errorCases() []testCase {
	var cases []testCase
	for _, row := range refusals {
		cases = append(cases, testCase{"error." + row.name, row.behaviour, fmt.Sprintf("closed: %d `%s`", row.code, row.text),
			func(b *bench) {
				channel := b.channel()
				queue, absent := b.queue(channel, nil), b.fresh("absent")
				text := strings.NewReplacer("QUEUE", queue, "ABSENT", absent).Replace(row.text)
				refused(row.act(channel, queue, absent), row.code, text)
			}})
	}
	logins := []struct{ name, behaviour, from, to, text string }{
		{"wrong-password", "a wrong password", "guest:guest@", "guest:wrong@",
			"Exception (403) Reason: \"username or password not allowed\""},
		{"unknown-vhost", "an unknown virtual host", "", "/absent", "Exception (530) Reason: \"NOT_ALLOWED - vhost absent not found\""},
	}
	for _, row := range logins {
		cases = append(cases, testCase{"login." + row.name, row.behaviour, "refused: `" + row.text + "` in this client",
			func(*bench) {
				target := strings.Replace(uri, row.from, row.to, 1)
				if row.from == "" {
					target = strings.TrimSuffix(uri, "/") + row.to
				}
				_, err := amqp.Dial(target)
				if err == nil {
					panic("the connection was opened")
				}
				expect(err.Error(), row.text, "error")
			}})
	}
	return cases
}
