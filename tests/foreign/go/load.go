package main

// The load of the crash suite: publishers and consumers that know what was promised.
//
// Commands come on standard input, one a line; each is answered by one JSON line:
//
//	cut        ends all connections without a word, answers when the load has ended
//	lost       answers when the load has ended because the broker went away
//	drain URI  takes everything left in the queues and checks it against the ledger
//
// What is checked: every confirmed message was delivered or is still there, whole; nothing
// came that was not sent; each publisher's order is kept; a second copy says redelivered.
//
// With --queues mortal the queues are such that messages die in them (of time, of a length limit, by being rejected): every
// confirmed message is in its queue or in the dead-letter queue. A copy may be there twice; order is due in the queue
// alone.
//
// With --queues late many messages are delayed: see load_delays.go.

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	windowMax       = 400 // unconfirmed messages of a publisher
	creditMax       = 200 // unsettled messages of a consumer
	ackBatch        = 20
	paddingMax      = 1500
	drainQuiet      = 700 * time.Millisecond
	burialMax       = 3 * time.Second // the dead wait for the disk, and are in neither queue meanwhile
	drainMax        = 60 * time.Second
	messagesPerLane = 200_000
	mortalTime      = 300 // milliseconds: less than drainQuiet
	mortalLength    = 500
)

// verdict is what becomes of all messages that a consumer holds.
type verdict int

const (
	hold verdict = iota
	accept
	reject
)

// client is one connection of one protocol. Both loops end when the connection does.
type client interface {
	// publish sends what next hands out; confirm is told each sequence number's fate, in any order.
	publish(to target, next func() (message, bool), confirm func(sequence uint64, accepted bool)) error
	// consume takes messages; take says what becomes of all up to this one.
	consume(queue string, take func(body []byte, redelivered bool) verdict) error
	cut()
}

// target is where a publisher publishes to; without an exchange straight into the queue.
type target struct {
	exchange, queue string
}

type message struct {
	sequence uint64
	body     []byte
	due      time.Time // nobody may get it before; zero: at once
}

type opener func(uri string) (client, error)

// lane is one publisher to one queue, and what is known of its messages.
type lane struct {
	sent      uint64
	confirmed map[uint64]bool
	delivered map[uint64]bool
	last      uint64 // the highest delivered for the first time, live
	drained   uint64 // the highest drained
	due       map[uint64]time.Time
}

type ledger struct {
	mutex     sync.Mutex
	queue     string
	arguments amqp.Table
	late      string        // the exchange that delays what goes to it; empty where nothing is delayed
	early     time.Duration // by how much a delayed message may come early
	dead      string        // where what dies in the queue must be; empty where nothing dies
	consumed  bool          // by somebody who accepts, or rejects where there is a dead-letter queue
	round     string
	lanes     []*lane
	faults    []string
	drained   int
	buried    int
	twice     int
}

// ledgerOf is a queue of its own, with nothing in it yet.
func ledgerOf(round, name, kind string, publishers int) *ledger {
	one := &ledger{queue: "foreign.crash." + round + "." + name, arguments: amqp.Table{"x-queue-type": kind}, round: round}
	for range publishers {
		one.lanes = append(one.lanes, &lane{confirmed: map[uint64]bool{}, delivered: map[uint64]bool{}, due: map[uint64]time.Time{}})
	}
	return one
}

func plainLedgers(round string, publishers int) []*ledger {
	var ledgers []*ledger
	for _, kind := range []string{"classic", "quorum"} {
		for _, consumed := range []bool{true, false} {
			one := ledgerOf(round, fmt.Sprintf("%s.%t", kind, consumed), kind, publishers)
			one.consumed = consumed
			ledgers = append(ledgers, one)
		}
	}
	return ledgers
}

// mortalLedgers is a queue for each type and each way to die. Dead-lettering is at-least-once where RabbitMQ has that.
func mortalLedgers(round string, publishers int) []*ledger {
	var ledgers []*ledger
	for _, kind := range []string{"classic", "quorum"} {
		for _, way := range []string{"time", "length", "rejected"} {
			one := ledgerOf(round, kind+"."+way, kind, publishers)
			one.dead = one.queue + ".dead"
			one.arguments["x-dead-letter-exchange"] = ""
			one.arguments["x-dead-letter-routing-key"] = one.dead
			switch way {
			case "time":
				one.arguments["x-message-ttl"] = mortalTime
			case "length":
				one.arguments["x-max-length"] = mortalLength
			case "rejected":
				one.consumed = true
			}
			if kind == "quorum" && way != "length" {
				one.arguments["x-dead-letter-strategy"] = "at-least-once"
				one.arguments["x-overflow"] = "reject-publish"
			}
			ledgers = append(ledgers, one)
		}
	}
	return ledgers
}

type summary struct {
	Confirmed int      `json:"confirmed"`
	Delivered int      `json:"delivered"`
	Drained   int      `json:"drained"`
	Buried    int      `json:"buried"`
	Twice     int      `json:"twice"`
	Faults    []string `json:"faults"`
}

type load struct {
	open    opener
	uri     string
	ledgers []*ledger
	clients []client
	mutex   sync.Mutex
	running sync.WaitGroup
	ended   chan struct{} // closed when the clients are to stop
}

func runLoad(arguments []string, open opener, early time.Duration) {
	flags := flag.NewFlagSet("load", flag.ExitOnError)
	uri := flags.String("uri", "", "broker")
	round := flags.String("round", "r", "name of this round, part of every queue and body")
	publishers := flags.Int("publishers", 2, "publishers of each queue")
	queues := flags.String("queues", "plain", "plain; mortal: messages die in them; late: they are delayed")
	seed := flags.Uint64("seed", 0, "of the sizes")
	_ = flags.Parse(arguments)
	l := &load{open: open, uri: *uri, ended: make(chan struct{})}
	switch *queues {
	case "mortal":
		l.ledgers = mortalLedgers(*round, *publishers)
	case "late":
		l.ledgers = lateLedgers(*round, *publishers, early)
	default:
		l.ledgers = plainLedgers(*round, *publishers)
	}
	if err := l.start(*seed); err != nil {
		answer(map[string]any{"error": err.Error()})
		os.Exit(1)
	}
	answer(map[string]any{"started": true})
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		word, rest, _ := strings.Cut(commands.Text(), " ")
		switch word {
		case "cut", "lost":
			answer(l.finish(word == "cut"))
		case "drain":
			answer(l.drain(rest))
		default:
			answer(map[string]any{"error": "unknown command " + word})
		}
	}
}

func answer(value any) {
	_ = json.NewEncoder(os.Stdout).Encode(value)
}

// onChannel declares and deletes over 0-9-1: both protocols meet in the same queues.
func onChannel(uri string, act func(*amqp.Channel) error) error {
	connection, err := amqp.Dial(uri)
	if err != nil {
		return err
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		return err
	}
	return act(channel)
}

// ready is how many messages of a queue nobody was handed.
func ready(uri, queue string) (int, error) {
	left := 0
	err := onChannel(uri, func(channel *amqp.Channel) error {
		state, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
		left = state.Messages
		return err
	})
	return left, err
}

func (l *load) start(seed uint64) error {
	err := onChannel(l.uri, func(channel *amqp.Channel) error {
		for _, one := range l.ledgers {
			if _, err := channel.QueueDeclare(one.queue, true, false, false, false, one.arguments); err != nil {
				return err
			}
			if err := one.declareLate(channel); err != nil {
				return err
			}
			if one.dead == "" {
				continue
			}
			if _, err := channel.QueueDeclare(one.dead, true, false, false, false, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for index, one := range l.ledgers {
		for number := range one.lanes {
			dice := rand.New(rand.NewPCG(seed, uint64(index*100+number)))
			if err := l.run(func(c client) error { return one.publishLane(c, number, dice, l.ended) }); err != nil {
				return err
			}
		}
		if one.consumed {
			if err := l.run(func(c client) error { return one.consumeLive(c) }); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *load) run(act func(client) error) error {
	c, err := l.open(l.uri)
	if err != nil {
		return err
	}
	l.mutex.Lock()
	l.clients = append(l.clients, c)
	l.mutex.Unlock()
	l.running.Add(1)
	go func() {
		defer l.running.Done()
		_ = act(c) // it ends with the connection; what that cost shows in the ledger
	}()
	return nil
}

func (l *load) finish(cut bool) any {
	close(l.ended)
	if cut {
		for _, c := range l.clients {
			c.cut()
		}
	}
	done := make(chan struct{})
	go func() { l.running.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 2) // who did not end, and where
		return map[string]any{"error": "the load did not end with its connections"}
	}
	for _, c := range l.clients {
		c.cut()
	}
	return l.sum()
}

func (l *load) sum() summary {
	var total summary
	for _, one := range l.ledgers {
		one.mutex.Lock()
		for _, lane := range one.lanes {
			total.Confirmed += len(lane.confirmed)
			total.Delivered += len(lane.delivered)
		}
		total.Drained += one.drained
		total.Buried += one.buried
		total.Twice += one.twice
		total.Faults = append(total.Faults, one.faults...)
		one.mutex.Unlock()
	}
	if len(total.Faults) > 20 {
		total.Faults = append(total.Faults[:20], fmt.Sprintf("and %d more", len(total.Faults)-20))
	}
	return total
}

// body is "round lane sequence checksum padding".
func (l *ledger) body(number int, sequence uint64, dice *rand.Rand) []byte {
	padding := strings.Repeat(string(rune('a'+dice.IntN(26))), dice.IntN(paddingMax))
	text := fmt.Sprintf("%s %d %d ", l.round, number, sequence)
	sum := crc32.ChecksumIEEE([]byte(text + padding))
	return []byte(fmt.Sprintf("%s%08x %s", text, sum, padding))
}

func (l *ledger) parse(body []byte) (*lane, uint64, bool) {
	fields := strings.SplitN(string(body), " ", 5)
	if len(fields) != 5 || fields[0] != l.round {
		return nil, 0, false
	}
	number, err1 := strconv.Atoi(fields[1])
	sequence, err2 := strconv.ParseUint(fields[2], 10, 64)
	sum, err3 := strconv.ParseUint(fields[3], 16, 32)
	if err1 != nil || err2 != nil || err3 != nil || number < 0 || number >= len(l.lanes) {
		return nil, 0, false
	}
	whole := crc32.ChecksumIEEE([]byte(strings.Join(fields[:3], " ")+" "+fields[4])) == uint32(sum)
	known := sequence >= 1 && sequence <= l.lanes[number].sent
	return l.lanes[number], sequence, whole && known
}

func (l *ledger) publishLane(c client, number int, dice *rand.Rand, ended chan struct{}) error {
	lane := l.lanes[number]
	window := make(chan struct{}, windowMax)
	next := func() (message, bool) {
		select {
		case window <- struct{}{}:
		case <-ended:
			return message{}, false
		}
		l.mutex.Lock()
		defer l.mutex.Unlock()
		if lane.sent == messagesPerLane {
			return message{}, false
		}
		lane.sent++
		one := message{sequence: lane.sent, body: l.body(number, lane.sent, dice)}
		if l.late != "" {
			one.due = lane.delay(lane.sent, dice)
		}
		return one, true
	}
	return c.publish(target{l.late, l.queue}, next, func(sequence uint64, accepted bool) {
		l.mutex.Lock()
		if accepted {
			lane.confirmed[sequence] = true
		}
		l.mutex.Unlock()
		<-window
	})
}

func (l *ledger) fault(format string, values ...any) {
	l.faults = append(l.faults, l.queue+": "+fmt.Sprintf(format, values...))
}

func (l *ledger) consumeLive(c client) error {
	count := 0
	return c.consume(l.queue, func(body []byte, redelivered bool) verdict {
		l.mutex.Lock()
		defer l.mutex.Unlock()
		lane, sequence, known := l.parse(body)
		switch {
		case !known:
			l.fault("a message that nobody sent: %.60q", body)
		case l.dead != "": // to be seen again, dead
		case redelivered:
			l.fault("redelivered without a reason: %d", sequence)
		case l.late != "":
			l.takeLate(lane, sequence, redelivered)
		case sequence <= lane.last:
			l.fault("order: %d after %d", sequence, lane.last)
		default:
			lane.last = sequence
			lane.delivered[sequence] = true
		}
		count++
		switch {
		case count%ackBatch != 0:
			return hold
		case l.dead != "":
			return reject
		default:
			return accept
		}
	})
}

// drain takes what is left, until nothing came for a while, and settles the account.
func (l *load) drain(uri string) any {
	// the dead last: until its queue is empty a message may still die
	for _, drain := range []func(*ledger) error{
		func(one *ledger) error { return one.drainQueue(l.open, uri, one.queue, one.takeDrained) },
		func(one *ledger) error { return one.drainQueue(l.open, uri, one.dead, one.takeDead) },
	} {
		if err := l.each(drain); err != nil {
			return map[string]any{"error": err.Error()}
		}
	}
	for _, one := range l.ledgers {
		one.settle()
	}
	err := onChannel(uri, func(channel *amqp.Channel) error {
		for _, one := range l.ledgers {
			for _, queue := range []string{one.queue, one.dead} {
				if queue == "" {
					continue
				}
				if _, err := channel.QueueDelete(queue, false, false, false); err != nil {
					return err
				}
			}
			if one.late != "" {
				if err := channel.ExchangeDelete(one.late, false, false); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	return l.sum()
}

// each does it for all ledgers at once.
func (l *load) each(act func(*ledger) error) error {
	var group sync.WaitGroup
	failures := make([]error, len(l.ledgers))
	for index, one := range l.ledgers {
		group.Add(1)
		go func() {
			defer group.Done()
			failures[index] = act(one)
		}()
	}
	group.Wait()
	return errors.Join(failures...)
}

func (l *ledger) drainQueue(open opener, uri, queue string, taken func(body []byte, redelivered bool)) error {
	if queue == "" {
		return nil
	}
	c, err := open(uri)
	if err != nil {
		return err
	}
	came := make(chan struct{}, 1)
	ended := make(chan error, 1)
	count := 0
	go func() {
		ended <- c.consume(queue, func(body []byte, redelivered bool) verdict {
			l.mutex.Lock()
			defer l.mutex.Unlock()
			taken(body, redelivered)
			select {
			case came <- struct{}{}:
			default:
			}
			count++
			if count%ackBatch == 0 {
				return accept
			}
			return hold
		})
	}()
	deadline := time.After(drainMax)
	quiet := drainQuiet
	if l.late != "" {
		quiet += lateMax
	}
	if queue == l.dead {
		quiet += burialMax
	}
	for {
		select {
		case <-came:
		case <-time.After(quiet):
			// on a busy machine it may be quiet although there is more
			left, err := ready(uri, queue)
			if err != nil {
				return fmt.Errorf("draining %s: %w", queue, err)
			}
			if left > 0 {
				fmt.Fprintf(os.Stderr, "draining %s: nothing for %v, and %d are ready\n", queue, quiet, left)
				continue
			}
			c.cut()
			<-ended
			return nil
		case err := <-ended:
			return fmt.Errorf("draining %s ended: %w", queue, err)
		case <-deadline:
			return fmt.Errorf("draining %s: no end after %v", queue, drainMax)
		}
	}
}

func (l *ledger) takeDrained(body []byte, redelivered bool) {
	lane, sequence, known := l.parse(body)
	l.drained++
	switch {
	case !known:
		l.fault("a message that nobody sent: %.60q", body)
		return
	case l.late != "":
		l.takeLate(lane, sequence, redelivered)
		return
	case sequence <= lane.drained:
		l.fault("order after the restart: %d after %d", sequence, lane.drained)
	case lane.delivered[sequence] && !redelivered:
		l.fault("a second copy not marked redelivered: %d", sequence)
	}
	if lane.delivered[sequence] {
		l.twice++
	}
	lane.drained = max(lane.drained, sequence)
	lane.delivered[sequence] = true
}

// takeDead notes what died: a copy may come twice, and what died of one thing overtakes what dies of another later.
func (l *ledger) takeDead(body []byte, _ bool) {
	lane, sequence, known := l.parse(body)
	l.buried++
	if !known {
		l.fault("a message that nobody sent died: %.60q", body)
		return
	}
	if lane.delivered[sequence] {
		l.twice++
	}
	lane.delivered[sequence] = true
}

func (l *ledger) settle() {
	for number, lane := range l.lanes {
		lost := 0
		var first uint64
		for sequence := range lane.confirmed {
			if !lane.delivered[sequence] {
				lost++
				if first == 0 || sequence < first {
					first = sequence
				}
			}
		}
		if lost > 0 {
			l.fault("publisher %d: %d confirmed messages lost of %d, the first is %d", number, lost, len(lane.confirmed), first)
		}
	}
}
