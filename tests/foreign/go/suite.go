package main

// The cases of amqp091-go: what applications in Go lean on. `*` marks a redelivered body.

import (
	"bytes"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func allCases() []testCase {
	cases := []testCase{
		{"confirm.sequence", "1000 persistent messages with deferred confirms", "each acked once, tags 1 to 1000", confirmSequence},
		{"confirm.listener", "confirms through NotifyPublish", "tags in order", confirmListener},
		{"confirm.concurrent", "8 channels of one connection publish at once", "all acked; each channel's order kept", confirmConcurrent},
		{"return.before-confirm", "a mandatory unroutable message", "basic.return 312 `NO_ROUTE`, then its ack", returnBeforeConfirm},
		{"body.10MiB", "a body of 10 MiB, both ways", "the same bytes", bodyTenMebibytes},
		{"body.many-sizes", "bodies around the frame size", "the same bytes", bodyManySizes},
		{"properties.all", "properties and header types", "equal", propertiesAll},
		{"consume.order", "10,000 messages with a prefetch of 100, acks multiple", "in order, none twice", consumeOrder},
		{"consume.no-ack", "a consumer with autoAck", "taken for good", consumeNoAck},
		{"settle.ack", "ack, nack and reject, with and without requeue", "what was requeued comes again, redelivered=true", settleAll},
		{"settle.requeue-order", "nack multiple with requeue", "original order, redelivered=true", settleRequeueOrder},
		{"settle.channel-close", "closing a channel with unsettled deliveries", "original order, redelivered=true", settleChannelClose},
		{"get.all", "basic.get with a message, without one, and autoAck", "delivery with count; get-empty", getAll},
		{"qos.window", "a prefetch of 2", "two at once; each ack brings one more", qosWindow},
		{"share.round-robin", "two consumers", "in turns", shareRoundRobin},
		{"queue.server-named", "an empty queue name", "`amq.gen-...`", queueServerNamed},
		{"queue.purge-delete", "purge, delete with ifUnused and ifEmpty", "counts; 406 when the condition fails", queuePurgeDelete},
		{"queue.exclusive", "an exclusive queue from another connection", "405; gone with its connection", queueExclusive},
		{"queue.auto-delete", "an auto-delete queue", "gone with its last consumer", queueAutoDelete},
		{"consumer.cancel", "Cancel", "the delivery channel ends; the queue keeps the rest", consumerCancel},
		{"route.topic", "topic bindings `a.*` and `a.#`", "routed", routeTopic},
		{"route.headers", "headers bindings all and any", "routed", routeHeaders},
		{"route.fanout", "a fanout exchange and an exchange binding", "each queue one copy", routeFanout},
		{"nowait.declare", "declare, bind and consume with noWait", "in force for what follows", noWaitDeclare},
		{"channel.isolation", "an error on one channel", "NotifyClose with its code; the connection and others live", channelIsolation},
		{"connection.many", "50 connections with 4 channels each", "open, publish, close", connectionMany},
		{"connection.close-notify", "closing the connection", "NotifyClose channels end without an error", connectionCloseNotify},
		{"heartbeat.idle", "an idle connection with a heartbeat of 1 s", "open after 3 s", heartbeatIdle},
	}
	return append(cases, errorCases()...)
}

func confirmSequence(b *bench) {
	channel := b.channel()
	queue := b.queue(channel, nil)
	must(channel.Confirm(false))
	var pending []*amqp.DeferredConfirmation
	for number := uint64(1); number <= 1000; number++ {
		expect(channel.GetNextPublishSeqNo(), number, "next sequence number")
		message := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte("x")}
		confirmation, err := channel.PublishWithDeferredConfirm("", queue, true, false, message)
		must(err)
		expect(confirmation.DeliveryTag, number, "delivery tag")
		pending = append(pending, confirmation)
	}
	for _, confirmation := range pending {
		expect(confirmation.Wait(), true, "acked")
	}
	state, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	must(err)
	expect(state.Messages, 1000, "messages")
}

func confirmListener(b *bench) {
	channel := b.channel()
	queue := b.queue(channel, nil)
	must(channel.Confirm(false))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation, 300))
	for range 300 {
		must(channel.Publish("", queue, false, false, amqp.Publishing{DeliveryMode: amqp.Persistent}))
	}
	for number := uint64(1); number <= 300; number++ {
		select {
		case confirm := <-confirms:
			expect(confirm, amqp.Confirmation{DeliveryTag: number, Ack: true}, "confirm")
		case <-time.After(waitTime):
			panic("no confirm in time")
		}
	}
}

func confirmConcurrent(b *bench) {
	queue := b.queue(b.channel(), nil)
	var group sync.WaitGroup
	failures := make(chan any, 8)
	for lane := range 8 {
		channel := b.channel()
		group.Add(1)
		go func() {
			defer group.Done()
			defer func() { failures <- recover() }()
			var words []string
			for number := range 200 {
				words = append(words, fmt.Sprintf("%d:%03d", lane, number))
			}
			publish(channel, "", queue, words...)
		}()
	}
	group.Wait()
	for range 8 {
		if failure := <-failures; failure != nil {
			panic(failure)
		}
	}
	deliveries, err := b.channel().Consume(queue, "", true, false, false, false, nil)
	must(err)
	next := map[string]int{}
	for _, delivery := range take(deliveries, 1600) {
		lane, number, _ := strings.Cut(string(delivery.Body), ":")
		expect(number, fmt.Sprintf("%03d", next[lane]), "order in lane "+lane)
		next[lane]++
	}
}

func returnBeforeConfirm(b *bench) {
	channel := b.channel()
	must(channel.Confirm(false))
	// Neither channel is buffered: the order in which one reader sees them is the broker's.
	returns := channel.NotifyReturn(make(chan amqp.Return))
	confirms := channel.NotifyPublish(make(chan amqp.Confirmation))
	message := amqp.Publishing{MessageId: "m", Body: []byte("back")}
	must(channel.Publish("", b.fresh("absent"), true, false, message))
	for _, expected := range []string{"return 312 NO_ROUTE m back", "ack 1 true"} {
		event := ""
		select {
		case back := <-returns:
			event = fmt.Sprintf("return %d %s %s %s", back.ReplyCode, back.ReplyText, back.MessageId, back.Body)
		case confirm := <-confirms:
			event = fmt.Sprintf("ack %d %t", confirm.DeliveryTag, confirm.Ack)
		case <-time.After(waitTime):
			event = "nothing in time"
		}
		expect(event, expected, "event")
	}
}

func pattern(size int) []byte {
	return bytes.Repeat([]byte("0123456789abcdefghijklmnopqrstuvwxyz!"), size/37+1)[:size]
}

func roundTrip(b *bench, channel *amqp.Channel, queue string, size int) {
	publish(channel, "", queue, string(pattern(size)))
	deliveries, err := channel.Consume(queue, "once", true, false, false, false, nil)
	must(err)
	body := take(deliveries, 1)[0].Body
	must(channel.Cancel("once", false))
	expect(bytes.Equal(body, pattern(size)), true, fmt.Sprintf("body of %d bytes", size))
}

func bodyTenMebibytes(b *bench) {
	channel := b.channel()
	roundTrip(b, channel, b.queue(channel, nil), 10<<20)
}

func bodyManySizes(b *bench) {
	channel := b.channel()
	queue := b.queue(channel, nil)
	for _, size := range []int{0, 1, 4096, 131063, 131064, 131065, 262128, 262129, 1 << 20} {
		roundTrip(b, channel, queue, size)
	}
}

func propertiesAll(b *bench) {
	channel := b.channel()
	queue := b.queue(channel, nil)
	stamp := time.Unix(1_700_000_000, 0)
	headers := amqp.Table{
		"text": "grün", "bytes": []byte{0, 255}, "true": true, "byte": byte(200), "short": int16(-3), "int": int32(-5),
		"long": int64(1 << 40), "float": float32(1.5), "double": 2.5, "void": nil, "time": stamp,
		"decimal": amqp.Decimal{Scale: 2, Value: 314}, "list": []any{int32(1), "two"},
		"table": amqp.Table{"inner": "x"},
	}
	sent := amqp.Publishing{
		Headers: headers, ContentType: "text/plain", ContentEncoding: "utf-8", DeliveryMode: 2, Priority: 7,
		CorrelationId: "c", ReplyTo: "r", Expiration: "60000", MessageId: "m", Timestamp: stamp, Type: "t",
		UserId: "guest", AppId: "a", Body: []byte("x"),
	}
	must(channel.Publish("", queue, false, false, sent))
	deliveries, err := channel.Consume(queue, "", true, false, false, false, nil)
	must(err)
	seen := take(deliveries, 1)[0]
	expect(shown(seen.Headers), shown(headers), "headers")
	expect(fmt.Sprint(seen.ContentType, seen.ContentEncoding, seen.DeliveryMode, seen.Priority, seen.CorrelationId,
		seen.ReplyTo, seen.Expiration, seen.MessageId, seen.Timestamp.Unix(), seen.Type, seen.UserId, seen.AppId),
		fmt.Sprint(sent.ContentType, sent.ContentEncoding, sent.DeliveryMode, sent.Priority, sent.CorrelationId,
			sent.ReplyTo, sent.Expiration, sent.MessageId, stamp.Unix(), sent.Type, sent.UserId, sent.AppId), "properties")
}

func shown(table amqp.Table) string {
	var rows []string
	for name, value := range table {
		if stamp, isTime := value.(time.Time); isTime {
			value = stamp.Unix()
		}
		rows = append(rows, fmt.Sprintf("%s=%T:%v", name, value, value))
	}
	sort.Strings(rows)
	return strings.Join(rows, ", ")
}

func consumeOrder(b *bench) {
	const total = 10_000
	publisher, consumer := b.channel(), b.channel()
	queue := b.queue(publisher, nil)
	must(consumer.Qos(100, 0, false))
	deliveries, err := consumer.Consume(queue, "", false, false, false, false, nil)
	must(err)
	failure := make(chan any, 1)
	go func() {
		defer func() { failure <- recover() }()
		publish(publisher, "", queue, numbered(total)...)
	}()
	for number := 1; number <= total; number++ {
		delivery := take(deliveries, 1)[0]
		expect(string(delivery.Body), fmt.Sprint(number), "body")
		if number%50 == 0 {
			must(delivery.Ack(true))
		}
	}
	if why := <-failure; why != nil {
		panic(why)
	}
	must(consumer.Close())
	state, err := publisher.QueueDeclarePassive(queue, true, false, false, false, nil)
	must(err)
	expect(state.Messages, 0, "messages left")
}

func consumeNoAck(b *bench) {
	channel := b.channel()
	queue := b.queue(channel, nil)
	publish(channel, "", queue, numbered(50)...)
	consumer := b.channel()
	deliveries, err := consumer.Consume(queue, "", true, false, false, false, nil)
	must(err)
	expect(bodies(take(deliveries, 50)), strings.Join(numbered(50), " "), "bodies")
	must(consumer.Close())
	state, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	must(err)
	expect(state.Messages, 0, "messages left")
}

func settleAll(b *bench) {
	channel := b.channel()
	queue := b.queue(channel, nil)
	publish(channel, "", queue, numbered(5)...)
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	must(err)
	first := take(deliveries, 5)
	must(first[0].Ack(false))
	must(first[1].Nack(false, false))
	must(first[2].Reject(false))
	must(first[3].Nack(false, true))
	expect(bodies(take(deliveries, 1)), "4*", "requeued by nack")
	must(first[4].Reject(true))
	expect(bodies(take(deliveries, 1)), "5*", "requeued by reject")
	quiet(deliveries)
}

func settleRequeueOrder(b *bench) {
	channel := b.channel()
	queue := b.queue(channel, nil)
	publish(channel, "", queue, numbered(6)...)
	must(channel.Qos(4, 0, false))
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	must(err)
	taken := take(deliveries, 4)
	must(taken[3].Nack(true, true))
	expect(bodies(take(deliveries, 4)), "1* 2* 3* 4*", "bodies")
}

func settleChannelClose(b *bench) {
	channel, consumer := b.channel(), b.channel()
	queue := b.queue(channel, nil)
	publish(channel, "", queue, numbered(4)...)
	must(consumer.Qos(3, 0, false))
	deliveries, err := consumer.Consume(queue, "", false, false, false, false, nil)
	must(err)
	take(deliveries, 3)
	must(consumer.Close())
	again, err := channel.Consume(queue, "", true, false, false, false, nil)
	must(err)
	expect(bodies(take(again, 4)), "1* 2* 3* 4", "bodies")
}

func getAll(b *bench) {
	channel := b.channel()
	queue := b.queue(channel, nil)
	_, found, err := channel.Get(queue, false)
	must(err)
	expect(found, false, "found in an empty queue")
	publish(channel, "", queue, numbered(3)...)
	for left := 2; left >= 0; left-- {
		delivery, found, err := channel.Get(queue, left == 1)
		must(err)
		expect(found, true, "found")
		expect(delivery.MessageCount, uint32(left), "message count")
		if left != 1 {
			must(delivery.Ack(false))
		}
	}
}

func qosWindow(b *bench) {
	channel := b.channel()
	queue := b.queue(channel, nil)
	publish(channel, "", queue, numbered(4)...)
	must(channel.Qos(2, 0, false))
	deliveries, err := channel.Consume(queue, "", false, false, false, false, nil)
	must(err)
	first := take(deliveries, 2)
	quiet(deliveries)
	must(first[0].Ack(false))
	expect(bodies(take(deliveries, 1)), "3", "after one ack")
	quiet(deliveries)
}

func shareRoundRobin(b *bench) {
	channel := b.channel()
	queue := b.queue(channel, nil)
	one, err := b.channel().Consume(queue, "one", true, false, false, false, nil)
	must(err)
	two, err := b.channel().Consume(queue, "two", true, false, false, false, nil)
	must(err)
	for number := 1; number <= 6; number += 2 {
		publish(channel, "", queue, fmt.Sprint(number))
		expect(bodies(take(one, 1)), fmt.Sprint(number), "first consumer")
		publish(channel, "", queue, fmt.Sprint(number+1))
		expect(bodies(take(two, 1)), fmt.Sprint(number+1), "second consumer")
	}
}

func queueServerNamed(b *bench) {
	state, err := b.channel().QueueDeclare("", false, true, true, false, nil)
	must(err)
	expect(strings.HasPrefix(state.Name, "amq.gen-"), true, state.Name)
}

func queuePurgeDelete(b *bench) {
	channel := b.channel()
	queue := b.queue(channel, nil)
	publish(channel, "", queue, numbered(3)...)
	_, err := b.channel().QueueDelete(queue, false, true, false)
	refused(err, 406, fmt.Sprintf("PRECONDITION_FAILED - queue '%s' in vhost '/' not empty", queue))
	count, err := channel.QueuePurge(queue, false)
	must(err)
	expect(count, 3, "purged")
	consumer := b.channel()
	_, err = consumer.Consume(queue, "", false, false, false, false, nil)
	must(err)
	_, err = b.channel().QueueDelete(queue, true, false, false)
	refused(err, 406, fmt.Sprintf("PRECONDITION_FAILED - queue '%s' in vhost '/' in use", queue))
	must(consumer.Close())
	count, err = channel.QueueDelete(queue, true, true, false)
	must(err)
	expect(count, 0, "deleted messages")
}

func queueExclusive(b *bench) {
	owner, other := b.connect(), b.connect()
	channel, err := owner.Channel()
	must(err)
	queue := b.fresh("exclusive")
	_, err = channel.QueueDeclare(queue, false, false, true, false, nil)
	must(err)
	stranger, err := other.Channel()
	must(err)
	_, err = stranger.Consume(queue, "", true, false, false, false, nil)
	refused(err, 405, fmt.Sprintf("RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '%s' in vhost '/'."+
		" It could be originally declared on another connection or the exclusive property value does not match that of"+
		" the original declaration.", queue))
	must(owner.Close())
	goneSoon(other, queue)
}

func goneSoon(connection *amqp.Connection, queue string) {
	for deadline := time.Now().Add(waitTime); ; time.Sleep(20 * time.Millisecond) {
		channel, err := connection.Channel()
		must(err)
		if _, err = channel.QueueDeclarePassive(queue, false, false, false, false, nil); err != nil {
			refused(err, 404, fmt.Sprintf("NOT_FOUND - no queue '%s' in vhost '/'", queue))
			return
		}
		must(channel.Close())
		if time.Now().After(deadline) {
			panic("the queue is still there")
		}
	}
}

func queueAutoDelete(b *bench) {
	channel := b.channel()
	queue := b.fresh("auto")
	_, err := channel.QueueDeclare(queue, true, true, false, false, nil)
	must(err)
	_, err = channel.Consume(queue, "last", true, false, false, false, nil)
	must(err)
	must(channel.Cancel("last", false))
	goneSoon(b.connections[0], queue)
}

func consumerCancel(b *bench) {
	channel := b.channel()
	queue := b.queue(channel, nil)
	deliveries, err := channel.Consume(queue, "tag", false, false, false, false, nil)
	must(err)
	publish(channel, "", queue, "1")
	must(take(deliveries, 1)[0].Ack(false))
	must(channel.Cancel("tag", false))
	publish(channel, "", queue, "2")
	if _, open := <-deliveries; open {
		panic("a delivery after cancel-ok")
	}
	delivery, found, err := channel.Get(queue, true)
	must(err)
	expect(fmt.Sprint(found, string(delivery.Body)), "true2", "what is left")
}

func routeTopic(b *bench) {
	channel := b.channel()
	one, many := b.queue(channel, nil), b.queue(channel, nil)
	word := b.fresh("word")
	must(channel.QueueBind(one, word+".*", "amq.topic", false, nil))
	must(channel.QueueBind(many, word+".#", "amq.topic", false, nil))
	for _, tail := range []string{"", ".a", ".a.b"} {
		publish(channel, "amq.topic", word+tail, "to"+tail)
	}
	expect(drained(channel, one), "to.a", "bound to *")
	expect(drained(channel, many), "to to.a to.a.b", "bound to #")
}

func drained(channel *amqp.Channel, queue string) string {
	var taken []amqp.Delivery
	for {
		delivery, found, err := channel.Get(queue, true)
		must(err)
		if !found {
			return bodies(taken)
		}
		taken = append(taken, delivery)
	}
}

func routeHeaders(b *bench) {
	channel := b.channel()
	all, any := b.queue(channel, nil), b.queue(channel, nil)
	exchange := b.fresh("exchange")
	must(channel.ExchangeDeclare(exchange, "headers", false, true, false, false, nil))
	must(channel.QueueBind(all, "", exchange, false, amqp.Table{"x-match": "all", "a": int32(1), "b": "x"}))
	must(channel.QueueBind(any, "", exchange, false, amqp.Table{"x-match": "any", "a": int32(1), "b": "x"}))
	must(channel.Confirm(false))
	for body, headers := range map[string]amqp.Table{"both": {"a": int32(1), "b": "x"}, "wrong": {"a": int32(2)}} {
		confirmation, err := channel.PublishWithDeferredConfirm(exchange, "", false, false,
			amqp.Publishing{Headers: headers, Body: []byte(body)})
		must(err)
		expect(confirmation.Wait(), true, "acked")
	}
	expect(drained(channel, all), "both", "bound to all")
	expect(drained(channel, any), "both", "bound to any")
}

func routeFanout(b *bench) {
	channel := b.channel()
	queues := []string{b.queue(channel, nil), b.queue(channel, nil)}
	outer, inner := b.fresh("outer"), b.fresh("inner")
	must(channel.ExchangeDeclare(outer, "fanout", false, true, false, false, nil))
	must(channel.ExchangeDeclare(inner, "fanout", false, true, false, false, nil))
	must(channel.ExchangeBind(inner, "", outer, false, nil))
	for _, queue := range queues {
		must(channel.QueueBind(queue, "", inner, false, nil))
		must(channel.QueueBind(queue, "ignored", outer, false, nil))
	}
	publish(channel, outer, "any", "x")
	for _, queue := range queues {
		expect(drained(channel, queue), "x", "copies")
	}
}

func noWaitDeclare(b *bench) {
	channel := b.channel()
	queue := b.fresh("quick")
	b.queues = append(b.queues, queue)
	_, err := channel.QueueDeclare(queue, true, false, false, true, nil)
	must(err)
	must(channel.QueueBind(queue, queue, "amq.direct", true, nil))
	deliveries, err := channel.Consume(queue, "", true, false, false, true, nil)
	must(err)
	publish(channel, "amq.direct", queue, "x")
	expect(bodies(take(deliveries, 1)), "x", "bodies")
}

func channelIsolation(b *bench) {
	healthy, broken := b.channel(), b.channel()
	queue := b.queue(healthy, nil)
	deliveries, err := healthy.Consume(queue, "", true, false, false, false, nil)
	must(err)
	closed := broken.NotifyClose(make(chan *amqp.Error, 1))
	absent := b.fresh("absent")
	must(broken.Publish(absent, "", false, false, amqp.Publishing{}))
	select {
	case why := <-closed:
		refused(why, 404, fmt.Sprintf("NOT_FOUND - no exchange '%s' in vhost '/'", absent))
	case <-time.After(waitTime):
		panic("the channel was not closed")
	}
	publish(healthy, "", queue, "x")
	expect(bodies(take(deliveries, 1)), "x", "on the other channel")
	expect(b.connections[0].IsClosed(), false, "connection closed")
}

func connectionMany(b *bench) {
	queue := b.queue(b.channel(), nil)
	for range 50 {
		connection := b.connect()
		for range 4 {
			channel, err := connection.Channel()
			must(err)
			publish(channel, "", queue, "x")
		}
	}
	state, err := b.channel().QueueDeclarePassive(queue, true, false, false, false, nil)
	must(err)
	expect(state.Messages, 200, "messages")
}

func connectionCloseNotify(b *bench) {
	connection := b.connect()
	channel, err := connection.Channel()
	must(err)
	onConnection := connection.NotifyClose(make(chan *amqp.Error, 1))
	onChannel := channel.NotifyClose(make(chan *amqp.Error, 1))
	must(connection.Close())
	for _, notices := range []chan *amqp.Error{onConnection, onChannel} {
		if why, open := <-notices; open {
			panic(why.Error())
		}
	}
}

func heartbeatIdle(b *bench) {
	connection, err := amqp.DialConfig(uri, amqp.Config{Heartbeat: time.Second})
	must(err)
	b.connections = append(b.connections, connection)
	expect(connection.Config.Heartbeat, time.Second, "negotiated heartbeat")
	time.Sleep(3 * time.Second)
	channel := b.channel()
	publish(channel, "", b.queue(channel, nil), "x")
}
