package main

// The cases of RabbitMQ's Go client for the stream protocol: what applications that write and read streams lean on.

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	amqp10 "github.com/Azure/go-amqp"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/amqp"
	"github.com/rabbitmq/rabbitmq-stream-go-client/pkg/stream"
)

var from = stream.OffsetSpecification{}

func casesStream() []testCase {
	cases := []testCase{
		{"publish.each", "10,000 messages by one producer", "all confirmed; read in order, with dense offsets", withStreams(streamEach)},
		{"publish.named", "a named producer sends ids 1 to 5, and after a reconnection 3 to 8", "the last id is known; each is stored once", withStreams(streamNamed)},
		{"publish.large", "a message of 500,000 bytes", "read as it was sent", withStreams(streamLarge)},
		{"read.offsets", "readers from first, last, next, an offset and a time", "each gets what is from there on", withStreams(streamOffsets)},
		{"read.stored", "an offset stored by hand, and another reader of that name", "it goes on from there", withStreams(streamStored)},
		{"read.auto-stored", "offsets stored by the client after every 100 messages", "the last of them is kept", withStreams(streamAutoStored)},
		{"read.filter", "messages with filter values in chunks of their own, a reader of one value", "the other's are not sent", withStreams(streamFilter)},
		{"single.takes-over", "two single active consumers, of which the active one stores an offset and leaves", "the other is told, and goes on from there", withStreams(streamSingle)},
		{"super.hash", "60 messages to a super stream by the hash of their key, read by a super stream consumer", "all arrive; those with one key in order, from one partition", withStreams(superHash)},
		{"super.key", "partitions with binding keys; a key without one", "each message in the partition of its key; refused by the client", withStreams(superKey)},
		{"super.single", "two single active consumers of a super stream", "they share its partitions; each message comes once", withStreams(superSingle)},
		{"stream.again", "a stream created again with other arguments, deleted twice", "`PreconditionFailed`; `StreamDoesNotExist`", withStreams(streamAgain)},
		{"stream.deleted", "a stream is deleted below a producer and a consumer", "both are told by a metadata update", withStreams(streamDeleted)},
		{"stream.stats", "statistics of a stream, empty and with messages", "no first offset; first offset 0", withStreams(streamStats)},
		{"message.all", "properties, application properties and annotations", "equal", withStreams(streamMessage)},
		{"across.amqp-10", "messages from a stream client read over AMQP 1.0, and the other way", "bodies and properties are equal", withStreams(streamAcross)},
		{"connection.cut", "three cuts; producer and consumer are made anew each time", "both are told; what was confirmed is read once", withStreams(streamCut)},
		{"login.refused", "a wrong password; a virtual host that is not there", "`AuthenticationFailure`; `VirtualHostAccessFailure`", streamLogin},
	}
	none := stream.Compression{}
	compressions := []stream.Compression{none.None(), none.Gzip(), none.Snappy(), none.Lz4(), none.Zstd()}
	for at, word := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		compression := compressions[at]
		cases = append(cases, testCase{"publish.batch-" + word, "200 messages in batches of 20, compression " + word,
			"all confirmed; read in order, and from the middle of a batch", withStreams(func(b *streamBench) { streamBatch(b, compression) })})
	}
	return cases
}

func streamEach(b *streamBench) {
	name := b.stream()
	b.publish(name, numbered(10_000)...)
	for at, one := range b.reader(name, from.First(), nil).take(10_000) {
		expect(one.body, fmt.Sprint(at+1), "body")
		expect(one.offset, int64(at), "offset")
	}
}

func streamNamed(b *streamBench) {
	name := b.stream()
	for turn, ids := range [][2]int64{{1, 5}, {3, 8}} {
		writer := b.writer(name, stream.NewProducerOptions().SetProducerName("named"))
		last, err := writer.GetLastPublishingId()
		must(err)
		expect(last, int64(5*turn), "last publishing id")
		for id := ids[0]; id <= ids[1]; id++ {
			message := amqp.NewMessage([]byte(fmt.Sprint(id)))
			message.SetPublishingId(id)
			must(writer.Send(message))
		}
		writer.await(int(ids[1] - ids[0] + 1))
		must(writer.Close())
	}
	sequence, err := b.environment.QuerySequence("named", name)
	must(err)
	expect(sequence, 8, "sequence")
	reader := b.reader(name, from.First(), nil)
	reader.expect("stored", numbered(8)...)
	reader.quiet()
}

func streamLarge(b *streamBench) {
	name := b.stream()
	large := strings.Repeat("large", 100_000)
	b.publish(name, large)
	b.reader(name, from.First(), nil).expect("large", large)
}

func streamBatch(b *streamBench, compression stream.Compression) {
	name := b.stream()
	writer := b.writer(name, stream.NewProducerOptions().SetSubEntrySize(20).SetCompression(compression))
	batch := numbered(200)
	writer.send(batch...)
	must(writer.Close())
	b.reader(name, from.First(), nil).expect("from the first", batch...)
	b.reader(name, from.Offset(113), nil).expect("from the middle", batch[113:]...)
}

func streamOffsets(b *streamBench) {
	name := b.stream()
	b.publish(name, numbered(10)...)
	time.Sleep(50 * time.Millisecond)
	between := time.Now().UnixMilli()
	time.Sleep(50 * time.Millisecond)
	b.publish(name, "11")
	next := b.reader(name, from.Next(), nil)
	time.Sleep(quietTime)
	readers := map[string]reader{
		"first": b.reader(name, from.First(), nil), "last": b.reader(name, from.Last(), nil), "next": next,
		"offset": b.reader(name, from.Offset(7), nil), "time": b.reader(name, from.Timestamp(between), nil),
	}
	b.publish(name, "12")
	for word, skipped := range map[string]int{"first": 0, "last": 10, "next": 11, "offset": 7, "time": 10} {
		readers[word].expect(word, numbered(12)[skipped:]...)
		readers[word].quiet()
	}
}

func named(word string) func(*stream.ConsumerOptions) {
	return func(options *stream.ConsumerOptions) { options.SetConsumerName(word).SetManualCommit() }
}

func streamStored(b *streamBench) {
	name := b.stream()
	b.publish(name, numbered(10)...)
	_, err := b.environment.QueryOffset("mine", name)
	expect(errors.Is(err, stream.OffsetNotFoundError), true, fmt.Sprint("not stored: ", err))
	first := b.reader(name, from.First(), named("mine"))
	first.take(10)
	must(first.StoreCustomOffset(4))
	b.stored("mine", name, 4)
	must(first.Close())
	offset, err := b.environment.QueryOffset("mine", name)
	must(err)
	b.reader(name, from.Offset(offset+1), named("mine")).expect("from the stored offset", numbered(10)[5:]...)
}

func streamAutoStored(b *streamBench) {
	name := b.stream()
	b.publish(name, numbered(250)...)
	tracking := stream.NewAutoCommitStrategy().SetCountBeforeStorage(100).SetFlushInterval(time.Hour)
	reader := b.reader(name, from.First(), func(options *stream.ConsumerOptions) {
		options.SetConsumerName("auto").SetAutoCommit(tracking)
	})
	reader.take(250)
	b.stored("auto", name, 199)
}

func streamFilter(b *streamBench) {
	name := b.stream()
	filtered := stream.NewProducerOptions().SetFilter(stream.NewProducerFilter(keyOf))
	writer := b.writer(name, filtered)
	for _, key := range []string{"north", "south", "north", "east"} {
		for number := range 5 {
			must(writer.Send(keyed(key, fmt.Sprint(key, number))))
		}
		writer.await(5)
	}
	// It lets everything pass: what does not come was not sent.
	all := func(*amqp.Message) bool { return true }
	reader := b.reader(name, from.First(), func(options *stream.ConsumerOptions) {
		options.SetFilter(stream.NewConsumerFilter([]string{"north"}, false, all))
	})
	five := []string{"north0", "north1", "north2", "north3", "north4"}
	reader.expect("filtered", append(five, five...)...)
	reader.quiet()
}

func streamSingle(b *streamBench) {
	name := b.stream()
	updates := make(chan string, 10)
	single := func(word string) func(*stream.ConsumerOptions) {
		update := stream.NewSingleActiveConsumer(func(_ string, active bool) stream.OffsetSpecification {
			updates <- fmt.Sprint(word, " ", active)
			offset, err := b.environment.QueryOffset("group", name)
			if err != nil {
				return from.First()
			}
			return from.Offset(offset + 1)
		})
		return func(options *stream.ConsumerOptions) {
			named("group")(options)
			options.SetSingleActiveConsumer(update)
		}
	}
	b.publish(name, numbered(10)...)
	first := b.reader(name, from.First(), single("one"))
	expect(next(updates, "update"), "one true", "first update")
	first.expect("active", numbered(10)...)
	second := b.reader(name, from.First(), single("two"))
	second.quiet()
	must(first.StoreCustomOffset(6))
	b.stored("group", name, 6)
	must(first.Close())
	expect(next(updates, "update"), "two true", "second update")
	second.expect("took over", numbered(10)[7:]...)
}

func next[T any](source <-chan T, what string) T {
	select {
	case one := <-source:
		return one
	case <-time.After(waitTime):
		panic("no " + what + " in time")
	}
}

// sendKeyed spreads messages `0` to `count - 1`, whose keys go round, and waits for their confirms.
func sendKeyed(b *streamBench, name string, strategy stream.RoutingStrategy, keys []string, count int) {
	producer, err := b.environment.NewSuperStreamProducer(name, stream.NewSuperStreamProducerOptions(strategy))
	must(err)
	confirms := producer.NotifyPublishConfirmation(count)
	for number := range count {
		must(producer.Send(keyed(keys[number%len(keys)], fmt.Sprint(number))))
	}
	for left := count; left > 0; {
		for _, status := range next(confirms, "confirm").ConfirmationStatus {
			expect(status.IsConfirmed(), true, "confirmed")
			left--
		}
	}
	must(producer.Close())
}

func superHash(b *streamBench) {
	name := b.superStream(stream.NewPartitionsOptions(3))
	partitions, err := b.environment.QueryPartitions(name)
	must(err)
	expect(strings.Join(partitions, " "), fmt.Sprintf("%[1]s-0 %[1]s-1 %[1]s-2", name), "partitions")
	keys := []string{"a", "b", "c", "d", "e", "f", "g"}
	sendKeyed(b, name, stream.NewHashRoutingStrategy(keyOf), keys, 60)
	in := newInbox()
	consumer, err := b.environment.NewSuperStreamConsumer(name, in.put, stream.NewSuperStreamConsumerOptions().SetOffset(from.First()))
	must(err)
	last, place := map[string]int{}, map[string]string{}
	used := map[string]bool{}
	for _, one := range in.take(60) {
		key, number := one.message.ApplicationProperties["key"].(string), 0
		_, err := fmt.Sscan(one.body, &number)
		must(err)
		if before, seen := last[key]; seen {
			expect(number, before+len(keys), "order of "+key)
			expect(one.stream, place[key], "partition of "+key)
		}
		last[key], place[key], used[one.stream] = number, one.stream, true
	}
	in.quiet()
	expect(len(used) > 1, true, "several partitions")
	must(consumer.Close())
}

func superKey(b *streamBench) {
	keys := []string{"north", "south", "east"}
	name := b.superStream(stream.NewBindingsOptions(keys))
	route, err := b.environment.QueryRoute(name, "south")
	must(err)
	expect(strings.Join(route, " "), name+"-south", "route")
	sendKeyed(b, name, stream.NewKeyRoutingStrategy(keyOf), keys, 30)
	for at, key := range keys {
		reader := b.reader(name+"-"+key, from.First(), nil)
		for number, one := range reader.take(10) {
			expect(one.body, fmt.Sprint(number*3+at), "of "+key)
		}
		reader.quiet()
	}
	producer, err := b.environment.NewSuperStreamProducer(name, stream.NewSuperStreamProducerOptions(stream.NewKeyRoutingStrategy(keyOf)))
	must(err)
	err = producer.Send(keyed("west", "nowhere"))
	expect(errors.Is(err, stream.ErrMessageRouteNotFound), true, fmt.Sprint("no route: ", err))
	must(producer.Close())
}

func superSingle(b *streamBench) {
	name := b.superStream(stream.NewPartitionsOptions(3))
	updates := make(chan string, 100)
	join := func(word string) inbox {
		in := newInbox()
		single := stream.NewSingleActiveConsumer(func(partition string, active bool) stream.OffsetSpecification {
			updates <- fmt.Sprintf("%s %s %t", word, partition, active)
			return from.First()
		})
		options := stream.NewSuperStreamConsumerOptions().SetOffset(from.First()).SetConsumerName("group").SetSingleActiveConsumer(single)
		consumer, err := b.environment.NewSuperStreamConsumer(name, in.put, options)
		must(err)
		b.consumers = append(b.consumers, consumer)
		return in
	}
	one := join("one")
	for range 3 {
		expect(strings.HasPrefix(next(updates, "update"), "one "), true, "the first has all")
	}
	two := join("two")
	// One of three partitions goes over: the first hears that it is not active, then the second that it is.
	expect(next(updates, "update"), fmt.Sprintf("one %s-1 false", name), "given up")
	expect(next(updates, "update"), fmt.Sprintf("two %s-1 true", name), "taken over")
	keys := []string{"a", "b", "c", "d", "e", "f", "g"}
	sendKeyed(b, name, stream.NewHashRoutingStrategy(keyOf), keys, 60)
	seen := map[string]bool{}
	own := map[bool]int{}
	for range 60 {
		select {
		case message := <-one:
			expect(message.stream == name+"-1", false, "the first's partition")
			seen[message.body] = true
			own[true]++
		case message := <-two:
			expect(message.stream, name+"-1", "the second's partition")
			seen[message.body] = true
			own[false]++
		case <-time.After(waitTime):
			panic(fmt.Sprintf("%d messages of 60 in time", len(seen)))
		}
	}
	expect(len(seen), 60, "messages")
	expect(own[true] > 0 && own[false] > 0, true, "both have some")
	one.quiet()
	two.quiet()
}

func streamAgain(b *streamBench) {
	name := b.stream()
	other := stream.NewStreamOptions().SetMaxLengthBytes(stream.ByteCapacity{}.MB(7))
	err := b.environment.DeclareStream(name, other)
	expect(errors.Is(err, stream.PreconditionFailed), true, fmt.Sprint("created twice: ", err))
	exists, err := b.environment.StreamExists(name)
	must(err)
	expect(exists, true, "exists")
	must(b.environment.DeleteStream(name))
	exists, err = b.environment.StreamExists(name)
	must(err)
	expect(exists, false, "exists after it was deleted")
	err = b.environment.DeleteStream(name)
	expect(errors.Is(err, stream.StreamDoesNotExist), true, fmt.Sprint("deleted twice: ", err))
}

func streamDeleted(b *streamBench) {
	name := b.stream()
	writer, reader := b.writer(name, nil), b.reader(name, from.First(), nil)
	writerEnd, readerEnd := writer.NotifyClose(), reader.NotifyClose()
	writer.send("1")
	reader.expect("before", "1")
	must(b.environment.DeleteStream(name))
	expect(next(writerEnd, "end of the producer").Reason, stream.MetaDataUpdate, "why the producer ended")
	expect(next(readerEnd, "end of the consumer").Reason, stream.MetaDataUpdate, "why the consumer ended")
}

func streamStats(b *streamBench) {
	name := b.stream()
	stats, err := b.environment.StreamStats(name)
	must(err)
	_, err = stats.FirstOffset()
	expect(err != nil, true, "no first offset")
	b.publish(name, numbered(10)...)
	stats, err = b.environment.StreamStats(name)
	must(err)
	first, err := stats.FirstOffset()
	must(err)
	expect(first, 0, "first offset")
	_, err = stats.CommittedChunkId()
	must(err)
}

func streamMessage(b *streamBench) {
	name := b.stream()
	stamp := time.UnixMilli(1_700_000_000_000).UTC()
	sent := amqp.NewMessage([]byte("body"))
	sent.Properties = &amqp.MessageProperties{
		MessageID: "m", CorrelationID: "c", UserID: []byte("guest"), To: "t", Subject: "s", ReplyTo: "r",
		ContentType: "text/plain", ContentEncoding: "utf-8", CreationTime: stamp, GroupID: "g", GroupSequence: 3,
		ReplyToGroupID: "rg",
	}
	sent.ApplicationProperties = map[string]any{
		"text": "grün", "int": int32(7), "long": int64(1 << 40), "true": true, "double": 2.5, "uint": uint32(9),
		"bytes": []byte{0, 255}, "time": stamp,
	}
	sent.Annotations = amqp.Annotations{"x-mine": "kept"}
	writer := b.writer(name, nil)
	must(writer.Send(sent))
	writer.await(1)
	seen := b.reader(name, from.First(), nil).take(1)[0].message
	expect(fmt.Sprintf("%+v", *seen.Properties), fmt.Sprintf("%+v", *sent.Properties), "properties")
	expect(fmt.Sprint(seen.ApplicationProperties), fmt.Sprint(sent.ApplicationProperties), "application properties")
	expect(fmt.Sprint(seen.Annotations["x-mine"]), "kept", "annotation")
}

func streamAcross(b *streamBench) {
	name := b.stream()
	ending, end := context.WithTimeout(context.Background(), caseTime)
	defer end()
	parts, err := url.Parse(uri)
	must(err)
	connection := dial10(ending, parts, parts.Host, nil)
	defer connection.Close()
	session, err := connection.NewSession(ending, nil)
	must(err)
	address := "/queues/" + name
	sender, err := session.NewSender(ending, address, nil)
	must(err)
	sent := amqp10.NewMessage([]byte("from AMQP 1.0"))
	subject := "s"
	sent.Properties = &amqp10.MessageProperties{MessageID: "id-1", Subject: &subject}
	sent.ApplicationProperties = map[string]any{"number": int32(7)}
	must(sender.Send(ending, sent, nil))
	seen := b.reader(name, from.First(), nil).take(1)[0]
	expect(seen.body, "from AMQP 1.0", "body")
	properties := seen.message.Properties
	expect(fmt.Sprintf("%v %s %v", properties.MessageID, properties.Subject, seen.message.ApplicationProperties["number"]), "id-1 s 7", "properties")

	writer := b.writer(name, nil)
	back := keyed("k", "from a stream client").(*amqp.AMQP10)
	back.Properties = &amqp.MessageProperties{MessageID: "id-2", Subject: "t"}
	must(writer.Send(back))
	writer.await(1)
	receiver, err := session.NewReceiver(ending, address, &amqp10.ReceiverOptions{
		Filters: []amqp10.LinkFilter{amqp10.NewLinkFilter("rabbitmq:stream-offset-spec", 0, uint64(1))},
	})
	must(err)
	got, err := receiver.Receive(ending, nil)
	must(err)
	must(receiver.AcceptMessage(ending, got))
	expect(fmt.Sprintf("%s %v %s %v %v", got.GetData(), got.Properties.MessageID, *got.Properties.Subject,
		got.ApplicationProperties["key"], got.Annotations["x-stream-offset"]), "from a stream client id-2 t k 1", "over AMQP 1.0")
}

func streamCut(b *streamBench) {
	name := b.stream()
	for turn := range 3 {
		through := &streamBench{bench: b.bench, environment: environment(relayPort, nil)}
		writer, reader := through.writer(name, nil), through.reader(name, from.First(), nil)
		writerEnd, readerEnd := writer.NotifyClose(), reader.NotifyClose()
		writer.send(numbered(100*turn + 100)[100*turn:]...)
		cutAll()
		expect(next(writerEnd, "end of the producer").Reason, stream.SocketClosed, "why the producer ended")
		expect(next(readerEnd, "end of the consumer").Reason, stream.SocketClosed, "why the consumer ended")
		_ = through.environment.Close()
	}
	reader := b.reader(name, from.First(), nil)
	reader.expect("confirmed", numbered(300)...)
	reader.quiet()
}

func streamLogin(*bench) {
	refusedAs := func(expected error, change func(*stream.EnvironmentOptions)) {
		defer func() {
			why := fmt.Sprint(recover())
			expect(strings.Contains(why, expected.Error()), true, why)
		}()
		environment(streamPort, change)
		panic("the connection was opened")
	}
	refusedAs(stream.AuthenticationFailure, func(options *stream.EnvironmentOptions) { options.SetPassword("wrong") })
	refusedAs(stream.VirtualHostAccessFailure, func(options *stream.EnvironmentOptions) { options.SetVHost("absent") })
}
