package main

// The crash load over AMQP 1.0.

import (
	"context"
	"net"
	"net/url"
	"time"

	amqp10 "github.com/Azure/go-amqp"
)

type client10 struct {
	connection *amqp10.Conn
	session    *amqp10.Session
	socket     net.Conn
	ended      context.Context
	end        context.CancelFunc
}

func open10(uri string) (client, error) {
	parts, err := url.Parse(uri)
	if err != nil {
		return nil, err
	}
	socket, err := net.DialTimeout("tcp", parts.Host, 10*time.Second)
	if err != nil {
		return nil, err
	}
	password, _ := parts.User.Password()
	c := &client10{socket: socket}
	c.ended, c.end = context.WithCancel(context.Background())
	starting, done := context.WithTimeout(c.ended, 15*time.Second)
	defer done()
	c.connection, err = amqp10.NewConn(starting, socket, &amqp10.ConnOptions{
		HostName: "vhost:/", SASLType: amqp10.SASLTypePlain(parts.User.Username(), password),
	})
	if err != nil {
		return nil, err
	}
	c.session, err = c.connection.NewSession(starting, nil)
	return c, err
}

func (c *client10) cut() {
	_ = c.socket.Close()
	c.end()
}

type pending struct {
	sequence uint64
	receipt  amqp10.SendReceipt
}

func (c *client10) publish(to target, next func() (message, bool), confirm func(uint64, bool)) error {
	sender, err := c.session.NewSender(c.ended, "/queues/"+to.queue, nil)
	if err != nil {
		return err
	}
	// A send whose time ends when the link has gone already waits for a link that is being closed (go-amqp 1.7).
	defer context.AfterFunc(c.ended, func() { _ = sender.Close(c.ended) })()
	receipts := make(chan pending, windowMax)
	settled := make(chan error, 1)
	go func() {
		var failure error
		for one := range receipts {
			state, err := one.receipt.Wait(c.ended)
			if err != nil {
				failure = err
				continue // the rest is not confirmed either
			}
			_, accepted := state.(*amqp10.StateAccepted)
			confirm(one.sequence, accepted)
		}
		settled <- failure
	}()
	for {
		one, more := next()
		if !more {
			break
		}
		sent := amqp10.NewMessage(one.body)
		sent.Header = &amqp10.MessageHeader{Durable: true, Priority: 4}
		sent.Annotations = one.delay10()
		receipt, err := sender.SendWithReceipt(c.ended, sent, nil)
		if err != nil {
			break
		}
		receipts <- pending{one.sequence, receipt}
	}
	close(receipts)
	return <-settled
}

func (c *client10) consume(queue string, take func([]byte, bool) verdict) error {
	receiver, err := c.session.NewReceiver(c.ended, "/queues/"+queue, &amqp10.ReceiverOptions{Credit: creditMax})
	if err != nil {
		return err
	}
	var held []*amqp10.Message
	for {
		message, err := receiver.Receive(c.ended, nil)
		if err != nil {
			return err
		}
		held = append(held, message)
		again := message.Header != nil && (!message.Header.FirstAcquirer || message.Header.DeliveryCount > 0)
		verdict := take(message.GetData(), again)
		if verdict == hold {
			continue
		}
		for _, one := range held {
			if err := settle10(c.ended, receiver, one, verdict); err != nil {
				return err
			}
		}
		held = held[:0]
	}
}

func settle10(ended context.Context, receiver *amqp10.Receiver, message *amqp10.Message, verdict verdict) error {
	if verdict == reject {
		return receiver.RejectMessage(ended, message, nil)
	}
	return receiver.AcceptMessage(ended, message)
}
