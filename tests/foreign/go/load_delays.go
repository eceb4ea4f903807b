package main

// Delayed messages in the load of the crash suite: over AMQP 0-9-1 by x-delay through an exchange that delays, over AMQP 1.0 by
// x-opt-delivery-time, straight into the queue. None may come before its time; a second copy must say redelivered. Order
// is not due: it is that of the times, and of what is ready meanwhile.
//
// x-delay counts from the beginning of the turn in which a broker reads the message, for it asks for the time once a turn:
// on a busy machine, some milliseconds before it was sent.

import (
	"math/rand/v2"
	"time"

	amqp10 "github.com/Azure/go-amqp"
	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	lateMax = 3 * time.Second
	turnMax = 100 * time.Millisecond
)

// lateLedgers is a queue for each type, consumed and not.
func lateLedgers(round string, publishers int, early time.Duration) []*ledger {
	ledgers := plainLedgers(round, publishers)
	for _, one := range ledgers {
		one.late = one.queue + ".later"
		one.early = early
	}
	return ledgers
}

// declareLate declares the exchange that delays, where there is to be one.
func (l *ledger) declareLate(channel *amqp.Channel) error {
	if l.late == "" {
		return nil
	}
	arguments := amqp.Table{"x-delayed-type": "direct"}
	if err := channel.ExchangeDeclare(l.late, "x-delayed-message", true, false, false, false, arguments); err != nil {
		return err
	}
	return channel.QueueBind(l.queue, l.queue, l.late, false, nil)
}

// delay rolls when a message may come: three of four are late.
func (l *lane) delay(sequence uint64, dice *rand.Rand) time.Time {
	if dice.IntN(4) == 0 {
		return time.Time{}
	}
	due := time.Now().Truncate(time.Millisecond).Add(time.Duration(dice.Int64N(int64(lateMax))).Truncate(time.Millisecond))
	l.due[sequence] = due
	return due
}

// delay091 is the header, in whole milliseconds from now on, not fewer than are left.
func (m message) delay091() amqp.Table {
	left := time.Until(m.due)
	if m.due.IsZero() || left <= 0 {
		return nil
	}
	return amqp.Table{"x-delay": int32((left + time.Millisecond - 1) / time.Millisecond)}
}

func (m message) delay10() amqp10.Annotations {
	if m.due.IsZero() {
		return nil
	}
	return amqp10.Annotations{"x-opt-delivery-time": m.due}
}

// takeLate notes a delivery.
func (l *ledger) takeLate(lane *lane, sequence uint64, redelivered bool) {
	now := time.Now()
	if due := lane.due[sequence]; now.Add(l.early).Before(due) {
		l.fault("%d came %v too early", sequence, due.Sub(now))
	}
	if lane.delivered[sequence] {
		l.twice++
		if !redelivered {
			l.fault("a second copy not marked redelivered: %d", sequence)
		}
	}
	lane.delivered[sequence] = true
}
