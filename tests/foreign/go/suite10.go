package main

// The cases of Azure/go-amqp: what AMQP 1.0 applications in Go lean on. Queues are made over the management node,
// as RabbitMQ's own Go client does it.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"strings"
	"time"

	amqp10 "github.com/Azure/go-amqp"
)

func cases10() []testCase {
	return []testCase{
		{"send.outcomes", "300 durable messages, receipts awaited afterwards", "each accepted; received in order", with10(send10)},
		{"send.unroutable", "a routing key that nothing is bound to, and an absent queue by the anonymous terminus", "released", with10(unroutable10)},
		{"send.settled", "messages sent settled", "there", with10(settled10)},
		{"send.large", "a body of 5 MiB, both ways", "the same bytes", with10(large10)},
		{"receive.outcomes-classic", "a classic queue: accept, reject, release, modified", "released and modified come again; only failures count", with10(outcomes10("classic"))},
		{"receive.outcomes-quorum", "a quorum queue: accept, reject, release, modified", "released and modified come again; only failures count", with10(outcomes10("quorum"))},
		{"receive.credit", "manual credit of 2, then of 1", "so many come", with10(credit10)},
		{"receive.detach", "a receiver closed with unsettled messages", "they come again, in order", with10(detach10)},
		{"receive.concurrent", "4 sessions take 2,000 messages from one queue", "each once", with10(concurrent10)},
		{"message.all", "every section and type that Go has", "equal", with10(message10)},
		{"error.not-found", "a sender and a receiver for what is not there", "session ended: `amqp:not-found`; the connection lives", with10(notFound10)},
		{"error.login", "a wrong password", "SASL outcome 1", login10},
		{"management.topology", "queue, exchange and binding declared, looked up, removed over a pair of links", "201, 200, 204, 204; routed; 204, 204, 200; then 404", with10(topology10)},
		{"management.errors", "an unknown queue, a queue declared otherwise than it is", "404, 409; the links live", with10(managementErrors10)},
		{"queue.deleted", "a queue is deleted while a receiver waits on it", "link detached: `amqp:resource-deleted`", with10(deleted10)},
		{"rpc.queue", "20 calls, answered to the `reply-to` queue", "each its answer", with10(rpc10)},
		{"connection.cut", "three cuts with unsettled messages, connected anew each time", "they come again", cut10},
		{"idle.timeout", "an idle timeout of 3 s and nothing to do for 5 s", "still open", idle10},
	}
}

// bench10 is one connection with one session, and the queues to delete at the end.
type bench10 struct {
	*bench
	context    context.Context
	connection *amqp10.Conn
	session    *amqp10.Session
	manager    *manager
}

func with10(act func(*bench10)) func(*bench) {
	return func(b *bench) {
		ending, end := context.WithTimeout(context.Background(), caseTime)
		defer end()
		parts, err := url.Parse(uri)
		must(err)
		it := &bench10{bench: b, context: ending}
		it.connection = dial10(ending, parts, parts.Host, nil)
		defer it.connection.Close()
		it.session, err = it.connection.NewSession(ending, nil)
		must(err)
		act(it)
	}
}

func dial10(ending context.Context, parts *url.URL, host string, more func(*amqp10.ConnOptions)) *amqp10.Conn {
	connection, err := connect10(ending, parts, host, more)
	must(err)
	return connection
}

func connect10(ending context.Context, parts *url.URL, host string, more func(*amqp10.ConnOptions)) (*amqp10.Conn, error) {
	password, _ := parts.User.Password()
	options := &amqp10.ConnOptions{SASLType: amqp10.SASLTypePlain(parts.User.Username(), password), HostName: "vhost:/"}
	if more != nil {
		more(options)
	}
	socket, err := net.DialTimeout("tcp", host, waitTime)
	if err != nil {
		return nil, err
	}
	return amqp10.NewConn(ending, socket, options)
}

// queue10 is declared over 0-9-1: only the management cases are about the management node.
func (b *bench10) queue10(kind string) string {
	return b.bench.queue(b.channel(), map[string]any{"x-queue-type": kind})
}

func (b *bench10) sender(address string) *amqp10.Sender {
	sender, err := b.session.NewSender(b.context, address, nil)
	must(err)
	return sender
}

func (b *bench10) receiver(queue string, credit int32) *amqp10.Receiver {
	receiver, err := b.session.NewReceiver(b.context, "/queues/"+queue, &amqp10.ReceiverOptions{Credit: credit})
	must(err)
	return receiver
}

func durable(body string) *amqp10.Message {
	return &amqp10.Message{Header: &amqp10.MessageHeader{Durable: true}, Data: [][]byte{[]byte(body)}}
}

func (b *bench10) fill(queue string, words ...string) {
	sender := b.sender("/queues/" + queue)
	var receipts []amqp10.SendReceipt
	for _, word := range words {
		receipt, err := sender.SendWithReceipt(b.context, durable(word), nil)
		must(err)
		receipts = append(receipts, receipt)
	}
	for _, receipt := range receipts {
		expect(b.outcome(receipt), "accepted", "outcome")
	}
	must(sender.Close(b.context))
}

func (b *bench10) outcome(receipt amqp10.SendReceipt) string {
	state, err := receipt.Wait(b.context)
	must(err)
	return strings.ToLower(strings.TrimPrefix(reflect.TypeOf(state).Elem().Name(), "State"))
}

func (b *bench10) take(receiver *amqp10.Receiver, count int) []*amqp10.Message {
	var taken []*amqp10.Message
	for len(taken) < count {
		ending, end := context.WithTimeout(b.context, waitTime)
		message, err := receiver.Receive(ending, nil)
		end()
		if err != nil {
			panic(fmt.Sprintf("%d messages of %d: %v", len(taken), count, err))
		}
		taken = append(taken, message)
	}
	return taken
}

func (b *bench10) quiet(receiver *amqp10.Receiver) {
	ending, end := context.WithTimeout(b.context, quietTime)
	defer end()
	if message, err := receiver.Receive(ending, nil); err == nil {
		panic("one message too many: " + string(message.GetData()))
	}
}

// words10 shows bodies; `*` and a count mark one that failed before.
func words10(messages []*amqp10.Message) string {
	var words []string
	for _, message := range messages {
		word := string(message.GetData())
		if message.Header != nil && message.Header.DeliveryCount > 0 {
			word += fmt.Sprintf("*%d", message.Header.DeliveryCount)
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func send10(b *bench10) {
	queue := b.queue10("classic")
	words := numbered(300)
	b.fill(queue, words...)
	receiver := b.receiver(queue, 50)
	for _, word := range words {
		message := b.take(receiver, 1)[0]
		expect(string(message.GetData()), word, "body")
		must(receiver.AcceptMessage(b.context, message))
	}
}

func unroutable10(b *bench10) {
	receipt, err := b.sender("/exchanges/amq.direct/"+b.fresh("key")).SendWithReceipt(b.context, durable("x"), nil)
	must(err)
	expect(b.outcome(receipt), "released", "unbound key")
	to := "/queues/" + b.fresh("absent")
	message := durable("x")
	message.Properties = &amqp10.MessageProperties{To: &to}
	receipt, err = b.sender("").SendWithReceipt(b.context, message, nil)
	must(err)
	expect(b.outcome(receipt), "released", "absent queue")
}

func settled10(b *bench10) {
	queue := b.queue10("classic")
	mode := amqp10.SenderSettleModeSettled
	sender, err := b.session.NewSender(b.context, "/queues/"+queue, &amqp10.SenderOptions{SettlementMode: &mode})
	must(err)
	for _, word := range numbered(20) {
		must(sender.Send(b.context, durable(word), nil))
	}
	expect(words10(b.take(b.receiver(queue, 20), 20)), strings.Join(numbered(20), " "), "bodies")
}

func large10(b *bench10) {
	queue := b.queue10("classic")
	b.fill(queue, string(pattern(5<<20)))
	expect(bytes.Equal(b.take(b.receiver(queue, 1), 1)[0].GetData(), pattern(5<<20)), true, "equal")
}

func outcomes10(kind string) func(*bench10) {
	return func(b *bench10) {
		queue := b.queue10(kind)
		b.fill(queue, numbered(5)...)
		receiver := b.receiver(queue, 10)
		taken := b.take(receiver, 5)
		must(receiver.AcceptMessage(b.context, taken[0]))
		must(receiver.RejectMessage(b.context, taken[1], &amqp10.Error{Condition: "app:bad", Description: "unwanted"}))
		must(receiver.ReleaseMessage(b.context, taken[2]))
		expect(words10(b.take(receiver, 1)), "3", "released")
		must(receiver.ModifyMessage(b.context, taken[3], &amqp10.ModifyMessageOptions{DeliveryFailed: true}))
		expect(words10(b.take(receiver, 1)), "4*1", "modified, failed")
		must(receiver.ModifyMessage(b.context, taken[4], &amqp10.ModifyMessageOptions{}))
		expect(words10(b.take(receiver, 1)), "5", "modified, not failed")
		b.quiet(receiver)
	}
}

func credit10(b *bench10) {
	queue := b.queue10("classic")
	b.fill(queue, numbered(5)...)
	receiver := b.receiver(queue, -1)
	must(receiver.IssueCredit(2))
	expect(words10(b.take(receiver, 2)), "1 2", "with 2")
	b.quiet(receiver)
	must(receiver.IssueCredit(1))
	expect(words10(b.take(receiver, 1)), "3", "with 1")
	b.quiet(receiver)
}

func detach10(b *bench10) {
	queue := b.queue10("quorum")
	b.fill(queue, numbered(4)...)
	first := b.receiver(queue, 3)
	b.take(first, 3)
	must(first.Close(b.context))
	expect(words10(b.take(b.receiver(queue, 10), 4)), "1 2 3 4", "again")
}

func concurrent10(b *bench10) {
	const total, lanes = 2000, 4
	queue := b.queue10("classic")
	seen := make(chan string, total)
	failures := make(chan error, lanes)
	taking, end := context.WithCancel(b.context)
	defer end()
	for range lanes {
		session, err := b.connection.NewSession(b.context, nil)
		must(err)
		receiver, err := session.NewReceiver(b.context, "/queues/"+queue, &amqp10.ReceiverOptions{Credit: 50})
		must(err)
		go func() {
			for {
				message, err := receiver.Receive(taking, nil)
				if err == nil {
					err = receiver.AcceptMessage(taking, message)
				}
				if err != nil {
					failures <- err
					return
				}
				seen <- string(message.GetData())
			}
		}()
	}
	b.fill(queue, numbered(total)...)
	counts := map[string]int{}
	for range total {
		select {
		case word := <-seen:
			counts[word]++
		case err := <-failures:
			panic(err.Error())
		case <-time.After(waitTime):
			panic(fmt.Sprintf("%d messages of %d", len(counts), total))
		}
	}
	expect(len(counts), total, "different messages")
}

func message10(b *bench10) {
	queue := b.queue10("classic")
	stamp := time.UnixMilli(1_700_000_000_123).UTC()
	text := func(value string) *string { return &value }
	sequence := uint32(9)
	sent := &amqp10.Message{
		Header:      &amqp10.MessageHeader{Durable: true, Priority: 7},
		Annotations: amqp10.Annotations{"x-mine": "kept", "x-number": int64(5)},
		Properties: &amqp10.MessageProperties{
			MessageID: uint64(42), CorrelationID: amqp10.UUID{1, 2, 3}, UserID: []byte("guest"), To: text("/to"), Subject: text("s"),
			ReplyTo: text("/r"), ContentType: text("text/plain"), ContentEncoding: text("utf-8"), AbsoluteExpiryTime: &stamp,
			CreationTime: &stamp, GroupID: text("g"), GroupSequence: &sequence, ReplyToGroupID: text("rg"),
		},
		ApplicationProperties: map[string]any{
			"text": "grün", "bytes": []byte{0, 255}, "true": true, "byte": int8(-1), "ubyte": uint8(200), "short": int16(-3),
			"ushort": uint16(4), "int": int32(-5), "uint": uint32(6), "long": int64(1 << 40), "ulong": uint64(1 << 41),
			"float": float32(1.5), "double": 2.5, "void": nil, "time": stamp, "uuid": amqp10.UUID{9},
		},
		Value:  map[string]any{"list": []any{"a", int64(1)}},
		Footer: amqp10.Annotations{"x-foot": "er"},
	}
	sender := b.sender("/queues/" + queue)
	must(sender.Send(b.context, sent, nil))
	seen := b.take(b.receiver(queue, 1), 1)[0]
	expect(fmt.Sprint(seen.Header.Durable, seen.Header.Priority), "true 7", "header")
	for name, value := range sent.Annotations {
		expect(shownAny(seen.Annotations[name]), shownAny(value), "annotation")
	}
	for what, pair := range map[string][2]any{
		"properties":             {*seen.Properties, *sent.Properties},
		"application properties": {seen.ApplicationProperties, sent.ApplicationProperties},
		"value":                  {seen.Value, sent.Value}, "footer": {seen.Footer, sent.Footer},
	} {
		expect(shownAny(pair[0]), shownAny(pair[1]), what)
	}
}

// shownAny shows a value with its types; times as they print, whatever zone they carry.
func shownAny(value any) string {
	if properties, isThat := value.(amqp10.MessageProperties); isThat {
		shown, err := json.Marshal(properties)
		must(err)
		return fmt.Sprintf("%T %T %s", properties.MessageID, properties.CorrelationID, shown)
	}
	if table, isThat := value.(map[string]any); isThat {
		return shown(table)
	}
	return fmt.Sprintf("%T:%+v", value, value)
}

// ended answers the condition with which the broker ended what a call was about.
func ended(err error) (string, string) {
	var session *amqp10.SessionError
	if errors.As(err, &session) && session.RemoteErr != nil {
		return "session", string(session.RemoteErr.Condition)
	}
	var link *amqp10.LinkError
	if errors.As(err, &link) && link.RemoteErr != nil {
		return "link", string(link.RemoteErr.Condition)
	}
	var bare *amqp10.Error
	if errors.As(err, &bare) {
		return "session", string(bare.Condition) // of an attach that never was
	}
	panic(fmt.Sprintf("no condition of the peer in %v", err))
}

func notFound10(b *bench10) {
	for _, open := range []func(*amqp10.Session, string) error{
		func(session *amqp10.Session, name string) error {
			_, err := session.NewReceiver(b.context, "/queues/"+name, nil)
			return err
		},
		func(session *amqp10.Session, name string) error {
			_, err := session.NewSender(b.context, "/exchanges/"+name, nil)
			return err
		},
	} {
		session, err := b.connection.NewSession(b.context, nil)
		must(err)
		scope, condition := ended(open(session, b.fresh("absent")))
		expect(scope+" "+condition, "session amqp:not-found", "ended")
	}
	b.fill(b.queue10("classic"), "x")
}

func login10(b *bench) {
	ending, end := context.WithTimeout(context.Background(), waitTime)
	defer end()
	parts, err := url.Parse(uri)
	must(err)
	_, err = connect10(ending, parts, parts.Host, func(options *amqp10.ConnOptions) {
		options.SASLType = amqp10.SASLTypePlain("guest", "wrong")
	})
	if err == nil || !strings.Contains(err.Error(), "SASL PLAIN auth failed with code 0x1") {
		panic(fmt.Sprintf("saw %v", err))
	}
}

// manager asks the management node: HTTP requests and answers as messages over two links of one name.
type manager struct {
	bench   *bench10
	asks    *amqp10.Sender
	answers *amqp10.Receiver
	number  uint64
}

func (b *bench10) manage() *manager {
	const name, address = "management-link-pair", "/management"
	mode, paired := amqp10.SenderSettleModeSettled, map[string]any{"paired": true}
	receiving := make(chan *amqp10.Receiver, 1)
	failed := make(chan error, 1)
	go func() {
		receiver, err := b.session.NewReceiver(b.context, address, &amqp10.ReceiverOptions{
			Name: name, Properties: paired, TargetAddress: address, RequestedSenderSettleMode: &mode, Credit: 10,
		})
		failed <- err
		receiving <- receiver
	}()
	asks, err := b.session.NewSender(b.context, address, &amqp10.SenderOptions{
		Name: name, Properties: paired, SourceAddress: address, SettlementMode: &mode,
	})
	must(err)
	must(<-failed)
	// the client does not say when the receiver's credit is on its way, and a request before it is refused
	time.Sleep(quietTime)
	return &manager{bench: b, asks: asks, answers: <-receiving}
}

func (m *manager) ask(method, path string, body any) (string, any) {
	m.number++
	me := "$me"
	request := &amqp10.Message{
		Properties: &amqp10.MessageProperties{MessageID: m.number, To: &path, Subject: &method, ReplyTo: &me},
		Value:      body,
	}
	if body == nil {
		request.Value = amqp10.Null{}
	}
	must(m.asks.Send(m.bench.context, request, nil))
	answer := m.bench.take(m.answers, 1)[0]
	expect(answer.Properties.CorrelationID.(uint64), m.number, "correlation id")
	return *answer.Properties.Subject, answer.Value
}

func (m *manager) expect(code, method, path string, body any) any {
	seen, value := m.ask(method, path, body)
	expect(seen, code, fmt.Sprintf("%s %s: %v", method, path, value))
	return value
}

func topology10(b *bench10) {
	m := b.manage()
	queue, exchange := b.fresh("queue"), b.fresh("exchange")
	quorum := map[string]any{"durable": true, "exclusive": false, "auto_delete": false, "arguments": map[string]any{"x-queue-type": "quorum"}}
	m.expect("201", "PUT", "/queues/"+queue, quorum)
	m.expect("200", "PUT", "/queues/"+queue, quorum)
	m.expect("204", "PUT", "/exchanges/"+exchange, map[string]any{"durable": true, "auto_delete": false, "type": "topic", "arguments": map[string]any{}})
	m.expect("204", "POST", "/bindings", map[string]any{"source": exchange, "destination_queue": queue, "binding_key": "a.*", "arguments": map[string]any{}})
	sender := b.sender("/exchanges/" + exchange + "/a.b")
	must(sender.Send(b.context, durable("routed"), nil))
	about := m.expect("200", "GET", "/queues/"+queue, nil).(map[string]any)
	expect(shownAny(about["name"]), shownAny(queue), "name")
	expect(shownAny(about["type"]), shownAny("quorum"), "type")
	expect(shownAny(about["message_count"]), shownAny(uint64(1)), "messages")
	bindings := m.expect("200", "GET", "/bindings?src="+exchange+"&dstq="+queue+"&key=a.%2A", nil).([]any)
	expect(len(bindings), 1, "bindings")
	m.expect("204", "DELETE", bindings[0].(map[string]any)["location"].(string), nil)
	m.expect("204", "DELETE", "/exchanges/"+exchange, nil)
	expect(words10(b.take(b.receiver(queue, 1), 1)), "routed", "message")
	m.expect("200", "DELETE", "/queues/"+queue, nil)
	m.expect("404", "GET", "/queues/"+queue, nil)
}

func managementErrors10(b *bench10) {
	m := b.manage()
	queue := b.queue10("classic")
	m.expect("404", "GET", "/queues/"+b.fresh("absent"), nil)
	m.expect("409", "PUT", "/queues/"+queue, map[string]any{"durable": true, "arguments": map[string]any{"x-queue-type": "quorum"}})
	m.expect("200", "GET", "/queues/"+queue, nil)
}

func deleted10(b *bench10) {
	queue := b.queue10("classic")
	receiver := b.receiver(queue, 10)
	_, err := b.channel().QueueDelete(queue, false, false, false)
	must(err)
	_, err = receiver.Receive(b.context, nil)
	scope, condition := ended(err)
	expect(scope+" "+condition, "link amqp:resource-deleted", "ended")
}

func rpc10(b *bench10) {
	calls, replies := b.queue10("classic"), b.queue10("classic")
	serving, answering := b.receiver(calls, 10), b.sender("")
	answers, asking := b.receiver(replies, 10), b.sender("/queues/"+calls)
	replyTo := "/queues/" + replies
	for number := range 20 {
		call := durable(fmt.Sprint(number))
		call.Properties = &amqp10.MessageProperties{ReplyTo: &replyTo, MessageID: uint64(number)}
		must(asking.Send(b.context, call, nil))
		taken := b.take(serving, 1)[0]
		answer := durable(string(taken.GetData()) + "!")
		answer.Properties = &amqp10.MessageProperties{To: taken.Properties.ReplyTo, CorrelationID: taken.Properties.MessageID}
		must(answering.Send(b.context, answer, nil))
		must(serving.AcceptMessage(b.context, taken))
		seen := b.take(answers, 1)[0]
		must(answers.AcceptMessage(b.context, seen))
		expect(fmt.Sprint(seen.Properties.CorrelationID, string(seen.GetData())), fmt.Sprint(uint64(number), fmt.Sprint(number)+"!"), "answer")
	}
}

func cut10(b *bench) {
	if relayPort == "" {
		panic("needs --relay and --cut")
	}
	with10(func(b *bench10) {
		queue := b.queue10("quorum")
		b.fill(queue, numbered(3)...)
		parts, err := url.Parse(uri)
		must(err)
		for range 3 {
			connection := dial10(b.context, parts, "127.0.0.1:"+relayPort, nil)
			session, err := connection.NewSession(b.context, nil)
			must(err)
			receiver, err := session.NewReceiver(b.context, "/queues/"+queue, &amqp10.ReceiverOptions{Credit: 10})
			must(err)
			var seen []string
			for _, message := range b.take(receiver, 3) {
				seen = append(seen, string(message.GetData()))
			}
			expect(strings.Join(seen, " "), "1 2 3", "bodies")
			cutAll()
			select {
			case <-connection.Done():
			case <-time.After(waitTime):
				panic("the client did not notice the cut")
			}
		}
	})(b)
}

// cutAll resets all connections through the relay.
func cutAll() {
	knock, err := net.DialTimeout("tcp", "127.0.0.1:"+cutPort, waitTime)
	must(err)
	defer knock.Close()
	_, _ = knock.Read(make([]byte, 1))
}

func idle10(b *bench) {
	ending, end := context.WithTimeout(context.Background(), waitTime)
	defer end()
	parts, err := url.Parse(uri)
	must(err)
	connection := dial10(ending, parts, parts.Host, func(options *amqp10.ConnOptions) { options.IdleTimeout = 3 * time.Second })
	defer connection.Close()
	time.Sleep(5 * time.Second)
	_, err = connection.NewSession(ending, nil)
	must(err)
}
