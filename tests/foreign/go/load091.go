package main

// The crash load over AMQP 0-9-1.

import (
	"errors"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

type client091 struct {
	connection *amqp.Connection
	socket     net.Conn
}

func open091(uri string) (client, error) {
	c := &client091{}
	connection, err := amqp.DialConfig(uri, amqp.Config{Dial: func(network, address string) (net.Conn, error) {
		socket, err := net.DialTimeout(network, address, 10*time.Second)
		c.socket = socket
		return socket, err
	}})
	c.connection = connection
	return c, err
}

func (c *client091) cut() {
	_ = c.socket.Close()
}

func (c *client091) publish(to target, next func() (message, bool), confirm func(uint64, bool)) error {
	channel, err := c.connection.Channel()
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	// The first sequence number is 1, as the first delivery tag: they run together.
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, windowMax))
	closed := channel.NotifyClose(make(chan *amqp.Error, 1))
	go func() {
		for one := range confirms {
			confirm(one.DeliveryTag, one.Ack)
		}
	}()
	for {
		one, more := next()
		if !more {
			break
		}
		publishing := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: one.body, Headers: one.delay091()}
		if err := channel.Publish(to.exchange, to.queue, true, false, publishing); err != nil {
			return err
		}
	}
	<-closed
	return nil
}

func (c *client091) consume(queue string, take func([]byte, bool) verdict) error {
	channel, err := c.connection.Channel()
	if err != nil {
		return err
	}
	if err := channel.Qos(creditMax, 0, false); err != nil {
		return err
	}
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for delivery := range deliveries {
		switch take(delivery.Body, delivery.Redelivered) {
		case accept:
			_ = delivery.Ack(true)
		case reject:
			_ = delivery.Nack(true, false)
		}
	}
	return errors.New("the connection ended")
}
