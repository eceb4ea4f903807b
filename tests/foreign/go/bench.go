package main

// The frame of the Go suites: named cases, one JSON result each, as lab/cases.py has it.

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	caseTime  = 60 * time.Second
	waitTime  = 10 * time.Second
	quietTime = 250 * time.Millisecond
)

type testCase struct {
	name, behaviour, answer string
	act                     func(*bench)
}

type result struct {
	Name      string  `json:"name"`
	Status    string  `json:"status"`
	Why       string  `json:"why"`
	Behaviour string  `json:"behaviour"`
	Answer    string  `json:"answer"`
	Seconds   float64 `json:"seconds"`
}

var uri, streamPort, relayPort, cutPort string

func runSuite(name string, cases []testCase, arguments []string) {
	flags := flag.NewFlagSet("suite", flag.ExitOnError)
	flags.StringVar(&uri, "uri", "amqp://guest:guest@127.0.0.1:5672", "broker")
	only := flags.String("only", "*", "pattern of case names")
	flags.Int64("seed", 0, "unused here: nothing is random")
	flags.Bool("full", false, "unused here: there is one form")
	flags.Bool("later", false, "unused here: all of it is due")
	flags.String("admin", "", "unused here")
	flags.StringVar(&streamPort, "stream-port", "5552", "where the broker speaks to stream clients")
	flags.StringVar(&relayPort, "relay", "", "port of a relay before the broker")
	flags.StringVar(&cutPort, "cut", "", "port that cuts what is relayed")
	_ = flags.Parse(arguments)
	out, failed := json.NewEncoder(os.Stdout), false
	for _, one := range cases {
		one.name = name + "." + one.name
		if matched, _ := path.Match(*only, one.name); !matched && *only != "*" {
			continue
		}
		answer := one.run()
		failed = failed || answer.Status == "failed"
		_ = out.Encode(answer)
	}
	if failed {
		os.Exit(1)
	}
}

// run ends after caseTime whatever the case does: a hung one is left behind.
func (one testCase) run() result {
	begin := time.Now()
	done := make(chan string, 1)
	go func() {
		b := &bench{}
		defer func() {
			why := ""
			if caught := recover(); caught != nil {
				why = fmt.Sprint(caught)
			}
			b.close()
			done <- why
		}()
		one.act(b)
	}()
	why := ""
	select {
	case why = <-done:
	case <-time.After(caseTime):
		why = fmt.Sprintf("no end after %v", caseTime)
	}
	status := "ok"
	if why != "" {
		status = "failed"
	}
	seconds := float64(time.Since(begin).Milliseconds()) / 1000
	return result{one.name, status, why, one.behaviour, one.answer, seconds}
}

// bench is what a case works with: connections, and queues to delete afterwards.
// Its helpers panic with the reason; run turns that into the result.
type bench struct {
	connections []*amqp.Connection
	queues      []string
	number      int
}

func (b *bench) connect() *amqp.Connection {
	connection, err := amqp.DialConfig(uri, amqp.Config{Heartbeat: 10 * time.Second, Locale: "en_US"})
	must(err)
	b.connections = append(b.connections, connection)
	return connection
}

func (b *bench) channel() *amqp.Channel {
	if len(b.connections) == 0 {
		b.connect()
	}
	channel, err := b.connections[0].Channel()
	must(err)
	return channel
}

func (b *bench) fresh(word string) string {
	b.number++
	return fmt.Sprintf("foreign.go.%s.%x.%d", word, time.Now().UnixNano(), b.number)
}

func (b *bench) queue(channel *amqp.Channel, arguments amqp.Table) string {
	name := b.fresh("queue")
	_, err := channel.QueueDeclare(name, true, false, false, false, arguments)
	must(err)
	b.queues = append(b.queues, name)
	return name
}

func (b *bench) close() {
	for _, connection := range b.connections {
		_ = connection.Close()
	}
	if len(b.queues) == 0 {
		return
	}
	connection, err := amqp.Dial(uri)
	if err != nil {
		return
	}
	defer connection.Close()
	if channel, err := connection.Channel(); err == nil {
		for _, queue := range b.queues {
			_, _ = channel.QueueDelete(queue, false, false, false)
		}
	}
}

// publish sends persistent messages and waits for all their confirms.
func publish(channel *amqp.Channel, exchange, key string, bodies ...string) {
	must(channel.Confirm(false))
	var pending []*amqp.DeferredConfirmation
	for _, body := range bodies {
		message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}
		confirmation, err := channel.PublishWithDeferredConfirm(exchange, key, false, false, message)
		must(err)
		pending = append(pending, confirmation)
	}
	for _, confirmation := range pending {
		select {
		case <-confirmation.Done():
			expect(confirmation.Acked(), true, "acked")
		case <-time.After(waitTime):
			panic("no confirm in time")
		}
	}
}

func take(deliveries <-chan amqp.Delivery, count int) []amqp.Delivery {
	var taken []amqp.Delivery
	for len(taken) < count {
		select {
		case delivery, open := <-deliveries:
			if !open {
				panic(fmt.Sprintf("deliveries ended after %d of %d", len(taken), count))
			}
			taken = append(taken, delivery)
		case <-time.After(waitTime):
			panic(fmt.Sprintf("%d deliveries of %d in time", len(taken), count))
		}
	}
	return taken
}

func quiet(deliveries <-chan amqp.Delivery) {
	select {
	case delivery := <-deliveries:
		panic("one delivery too many: " + string(delivery.Body))
	case <-time.After(quietTime):
	}
}

func bodies(deliveries []amqp.Delivery) string {
	var words []string
	for _, delivery := range deliveries {
		word := string(delivery.Body)
		if delivery.Redelivered {
			word += "*"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func numbered(count int) []string {
	var words []string
	for number := 1; number <= count; number++ {
		words = append(words, fmt.Sprint(number))
	}
	return words
}

func must(err error) {
	if err != nil {
		panic(err.Error())
	}
}

func expect[T comparable](seen, expected T, what string) {
	if seen != expected {
		panic(fmt.Sprintf("%s: saw %.200v, expected %.200v", what, seen, expected))
	}
}

// refused checks the error of a call against the code and text that closed the channel.
func refused(err error, code int, text string) {
	var closed *amqp.Error
	if !errors.As(err, &closed) {
		panic(fmt.Sprintf("saw %v, expected code %d", err, code))
	}
	expect(closed.Code, code, "code")
	expect(closed.Reason, text, "text")
}
