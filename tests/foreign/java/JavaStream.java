import com.rabbitmq.stream.Address;
import com.rabbitmq.stream.AuthenticationFailureException;
import com.rabbitmq.stream.BackOffDelayPolicy;
import com.rabbitmq.stream.ByteCapacity;
import com.rabbitmq.stream.ConfirmationStatus;
import com.rabbitmq.stream.Constants;
import com.rabbitmq.stream.Consumer;
import com.rabbitmq.stream.ConsumerBuilder;
import com.rabbitmq.stream.ConsumerUpdateListener;
import com.rabbitmq.stream.Environment;
import com.rabbitmq.stream.EnvironmentBuilder;
import com.rabbitmq.stream.Message;
import com.rabbitmq.stream.NoOffsetException;
import com.rabbitmq.stream.OffsetSpecification;
import com.rabbitmq.stream.Producer;
import com.rabbitmq.stream.ProducerBuilder;
import com.rabbitmq.stream.Resource;
import com.rabbitmq.stream.StreamException;
import com.rabbitmq.stream.StreamStats;
import com.rabbitmq.stream.compression.Compression;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** RabbitMQ's Java client for the stream protocol: it tracks offsets and recovers by itself. */
final class JavaStream {
  private static final Bench BENCH = new Bench("java-stream");
  private static final Duration SOON = Duration.ofMillis(100);

  interface OnStream {
    void run(Environment environment, String stream) throws Exception;
  }

  record Taken(String body, long offset, String stream, Message message) {}

  /** Connects to this port and to no other, whatever the broker advertises. */
  static EnvironmentBuilder builder(int port) {
    return Environment.builder().host(Bench.uri.getHost()).port(port).username(Bench.user()).password(Bench.password())
        .addressResolver(advertised -> new Address(Bench.uri.getHost(), port))
        .recoveryBackOffDelayPolicy(BackOffDelayPolicy.fixed(SOON)).topologyUpdateBackOffDelayPolicy(BackOffDelayPolicy.fixed(SOON));
  }

  /** A case with a stream; what the case left open is closed before the stream goes. */
  static Bench.Act with(OnStream act) {
    return () -> {
      String stream = Bench.fresh("stream");
      try (Environment owner = builder(Bench.streamPort).build()) {
        owner.streamCreator().stream(stream).create();
        try (Environment environment = builder(Bench.streamPort).build()) {
          act.run(environment, stream);
        } finally {
          if (owner.streamExists(stream)) {
            owner.deleteStream(stream);
          }
        }
      }
    };
  }

  /** A case with a super stream of three partitions, or of one for each key. */
  static Bench.Act withSuper(OnStream act, String... keys) {
    return () -> {
      String name = Bench.fresh("super");
      try (Environment owner = builder(Bench.streamPort).build()) {
        var configuration = owner.streamCreator().name(name).superStream();
        (keys.length == 0 ? configuration.partitions(3) : configuration.bindingKeys(keys)).creator().create();
        try (Environment environment = builder(Bench.streamPort).build()) {
          act.run(environment, name);
        } finally {
          owner.deleteSuperStream(name);
        }
      }
    };
  }

  static List<String> words(int from, int to) {
    return IntStream.rangeClosed(from, to).mapToObj(Integer::toString).toList();
  }

  /** Sends what `made` answers for each number and waits until all are confirmed. */
  static void send(Producer producer, int from, int to, Function<Integer, Message> made) throws Exception {
    Bench.Inbox<ConfirmationStatus> confirms = new Bench.Inbox<>();
    for (int number = from; number <= to; number += 1) {
      producer.send(made.apply(number), confirms::put);
    }
    for (ConfirmationStatus status : confirms.take(to - from + 1, "confirm")) {
      Bench.equal(status.isConfirmed(), true, "confirmed, code " + status.getCode());
    }
  }

  static void send(Producer producer, int from, int to) throws Exception {
    send(producer, from, to, number -> producer.messageBuilder().addData(Integer.toString(number).getBytes()).build());
  }

  static void fill(Environment environment, String stream, int from, int to) throws Exception {
    try (Producer producer = environment.producerBuilder().stream(stream).build()) {
      send(producer, from, to);
    }
  }

  static Message keyed(Producer producer, String key, int number) {
    return producer.messageBuilder().applicationProperties().entry("key", key).messageBuilder()
        .addData(Integer.toString(number).getBytes()).build();
  }

  static String keyOf(Message message) {
    return message.getApplicationProperties().get("key").toString();
  }

  static Bench.Inbox<Taken> read(ConsumerBuilder builder) {
    Bench.Inbox<Taken> inbox = new Bench.Inbox<>();
    builder.messageHandler((context, message) ->
        inbox.put(new Taken(new String(message.getBodyAsBinary()), context.offset(), context.stream(), message))).build();
    return inbox;
  }

  static Bench.Inbox<Taken> read(Environment environment, String stream, OffsetSpecification from) {
    return read(environment.consumerBuilder().stream(stream).offset(from));
  }

  static void expect(Bench.Inbox<Taken> inbox, List<String> bodies, String what) throws Exception {
    Bench.equal(inbox.take(bodies.size(), what).stream().map(Taken::body).toList(), bodies, what);
  }

  static void each(Environment environment, String stream) throws Exception {
    fill(environment, stream, 1, 10_000);
    List<Taken> taken = read(environment, stream, OffsetSpecification.first()).take(10_000, "messages");
    for (int at = 0; at < 10_000; at += 1) {
      Bench.equal(List.of(taken.get(at).body, taken.get(at).offset), List.of(Integer.toString(at + 1), (long) at), "message");
    }
  }

  static void named(Environment environment, String stream) throws Exception {
    for (int turn = 0; turn < 2; turn += 1) {
      try (Producer producer = environment.producerBuilder().stream(stream).name("named").build()) {
        Bench.equal(producer.getLastPublishingId(), turn == 0 ? 0L : 5L, "last publishing id");
        send(producer, 1 + 2 * turn, 5 + 3 * turn, number ->
            producer.messageBuilder().publishingId(number).addData(Integer.toString(number).getBytes()).build());
      }
    }
    Bench.Inbox<Taken> inbox = read(environment, stream, OffsetSpecification.first());
    expect(inbox, words(1, 8), "stored");
    inbox.quiet("a message too many");
  }

  static void batch(Environment environment, String stream, Compression compression) throws Exception {
    ProducerBuilder builder = environment.producerBuilder().stream(stream).subEntrySize(20).compression(compression);
    try (Producer producer = builder.build()) {
      send(producer, 1, 200);
    }
    expect(read(environment, stream, OffsetSpecification.first()), words(1, 200), "from the first");
    expect(read(environment, stream, OffsetSpecification.offset(113)), words(114, 200), "from the middle of a batch");
  }

  static void offsets(Environment environment, String stream) throws Exception {
    fill(environment, stream, 1, 10);
    Thread.sleep(50);
    long between = System.currentTimeMillis();
    Thread.sleep(50);
    fill(environment, stream, 11, 11);
    Map<OffsetSpecification, Integer> places = Map.of(OffsetSpecification.first(), 1, OffsetSpecification.last(), 11,
        OffsetSpecification.next(), 12, OffsetSpecification.offset(7), 8, OffsetSpecification.timestamp(between), 11);
    Map<OffsetSpecification, Bench.Inbox<Taken>> inboxes = new HashMap<>();
    places.keySet().forEach(place -> inboxes.put(place, read(environment, stream, place)));
    inboxes.get(OffsetSpecification.next()).quiet("an old message");
    fill(environment, stream, 12, 12);
    for (OffsetSpecification place : places.keySet()) {
      expect(inboxes.get(place), words(places.get(place), 12), place.toString());
      inboxes.get(place).quiet("a message too many");
    }
  }

  static void stored(Environment environment, String stream) throws Exception {
    fill(environment, stream, 1, 10);
    Bench.Inbox<Taken> inbox = new Bench.Inbox<>();
    try (Consumer consumer = environment.consumerBuilder().stream(stream).name("mine").offset(OffsetSpecification.first())
        .manualTrackingStrategy().builder().messageHandler((context, message) ->
            inbox.put(new Taken(new String(message.getBodyAsBinary()), context.offset(), stream, message))).build()) {
      Bench.equal(known(consumer::storedOffset), false, "an offset before one was stored");
      inbox.take(10, "messages");
      consumer.store(4);
      Bench.eventually(() -> known(consumer::storedOffset) && consumer.storedOffset() == 4, "stored");
    }
    Bench.Inbox<Taken> again = read(environment.consumerBuilder().stream(stream).name("mine")
        .offset(OffsetSpecification.first()).manualTrackingStrategy().builder());
    expect(again, words(6, 10), "from behind the stored offset");
  }

  static void autoStored(Environment environment, String stream) throws Exception {
    fill(environment, stream, 1, 250);
    Bench.Inbox<Taken> inbox = new Bench.Inbox<>();
    try (Consumer consumer = environment.consumerBuilder().stream(stream).name("auto").offset(OffsetSpecification.first())
        .autoTrackingStrategy().messageCountBeforeStorage(100).flushInterval(Duration.ofHours(1)).builder()
        .messageHandler((context, message) -> inbox.put(new Taken("", context.offset(), stream, message))).build()) {
      inbox.take(250, "messages");
      Bench.eventually(() -> known(consumer::storedOffset) && consumer.storedOffset() == 199, "the 200th stored");
    }
  }

  static void filter(Environment environment, String stream) throws Exception {
    try (Producer producer = environment.producerBuilder().stream(stream).filterValue(JavaStream::keyOf).build()) {
      for (int turn = 0; turn < 4; turn += 1) {
        String key = List.of("north", "south", "north", "east").get(turn);
        send(producer, 5 * turn + 1, 5 * turn + 5, number -> keyed(producer, key, number));
      }
    }
    // The filter here lets everything pass: what does not come was not sent.
    Bench.Inbox<Taken> inbox = read(environment.consumerBuilder().stream(stream).offset(OffsetSpecification.first())
        .filter().values("north").postFilter(message -> true).builder());
    expect(inbox, List.of("1", "2", "3", "4", "5", "11", "12", "13", "14", "15"), "filtered");
    inbox.quiet("a message too many");
  }

  static void single(Environment environment, String stream) throws Exception {
    fill(environment, stream, 1, 7);
    fill(environment, stream, 8, 10); // a chunk of its own: the client shows whole chunks to who takes over
    Bench.Inbox<String> updates = new Bench.Inbox<>();
    Bench.Inbox<Taken> one = new Bench.Inbox<>();
    Consumer first = environment.consumerBuilder().stream(stream).name("group").singleActiveConsumer()
        .offset(OffsetSpecification.first()).manualTrackingStrategy().builder()
        .consumerUpdateListener(told(updates, "one", OffsetSpecification.first()))
        .messageHandler((context, message) -> one.put(new Taken(new String(message.getBodyAsBinary()), 0, stream, message))).build();
    Bench.equal(updates.take("update"), "one true", "first update");
    expect(one, words(1, 10), "active");
    Bench.Inbox<Taken> two = read(environment.consumerBuilder().stream(stream).name("group").singleActiveConsumer()
        .manualTrackingStrategy().builder().consumerUpdateListener(told(updates, "two", OffsetSpecification.offset(7))));
    two.quiet("a message for who waits");
    first.close(); // which the client itself tells its listener
    Bench.equal(updates.take(2, "updates"), List.of("one false", "two true"), "updates");
    expect(two, words(8, 10), "took over");
  }

  static ConsumerUpdateListener told(Bench.Inbox<String> updates, String word, OffsetSpecification from) {
    return context -> {
      updates.put(word + " " + context.isActive());
      return from;
    };
  }

  static void spread(Environment environment, String name) throws Exception {
    try (Producer producer = environment.producerBuilder().superStream(name).routing(JavaStream::keyOf).hash().producerBuilder().build()) {
      send(producer, 0, 69, number -> keyed(producer, Integer.toString(number % 7), number));
    }
    Bench.Inbox<Taken> inbox = read(environment.consumerBuilder().superStream(name).offset(OffsetSpecification.first()));
    Map<String, Taken> last = new HashMap<>();
    Set<String> used = new HashSet<>();
    for (Taken one : inbox.take(70, "messages")) {
      Taken before = last.put(keyOf(one.message), one);
      used.add(one.stream);
      if (before != null) {
        Bench.equal(Integer.parseInt(one.body), Integer.parseInt(before.body) + 7, "order of a key");
        Bench.equal(one.stream, before.stream, "partition of a key");
      }
    }
    Bench.equal(used.size() > 1, true, "several partitions");
    inbox.quiet("a message too many");
  }

  static void keys(Environment environment, String name) throws Exception {
    List<String> keys = List.of("north", "south", "east");
    try (Producer producer = environment.producerBuilder().superStream(name).routing(JavaStream::keyOf).key().producerBuilder().build()) {
      send(producer, 0, 29, number -> keyed(producer, keys.get(number % 3), number));
      Bench.Inbox<ConfirmationStatus> confirms = new Bench.Inbox<>();
      producer.send(keyed(producer, "west", 30), confirms::put);
      Bench.equal(confirms.take("status").getCode(), Constants.CODE_NO_ROUTE_FOUND, "status of a key without a partition");
    }
    for (int at = 0; at < 3; at += 1) {
      int first = at;
      expect(read(environment, name + "-" + keys.get(at), OffsetSpecification.first()),
          IntStream.range(0, 10).mapToObj(turn -> Integer.toString(3 * turn + first)).toList(), "of " + keys.get(at));
    }
  }

  static void shared(Environment environment, String name) throws Exception {
    Map<String, String> active = new ConcurrentHashMap<>();
    Bench.Inbox<Taken> inbox = new Bench.Inbox<>();
    Map<String, Set<String>> places = new ConcurrentHashMap<>();
    for (String word : List.of("one", "two", "three")) {
      environment.consumerBuilder().superStream(name).name("group").singleActiveConsumer().offset(OffsetSpecification.first())
          .manualTrackingStrategy().builder()
          .consumerUpdateListener(context -> {
            if (context.isActive()) {
              active.put(context.stream(), word);
            }
            return OffsetSpecification.first();
          })
          .messageHandler((context, message) -> {
            places.computeIfAbsent(word, it -> ConcurrentHashMap.newKeySet()).add(context.stream());
            inbox.put(new Taken(new String(message.getBodyAsBinary()), 0, context.stream(), message));
          }).build();
    }
    Bench.eventually(() -> new HashSet<>(active.values()).size() == 3, "each has a partition");
    try (Producer producer = environment.producerBuilder().superStream(name).routing(JavaStream::keyOf).hash().producerBuilder().build()) {
      send(producer, 1, 90, number -> keyed(producer, Integer.toString(number), number));
    }
    Set<String> bodies = inbox.take(90, "messages").stream().map(Taken::body).collect(Collectors.toSet());
    Bench.equal(bodies.size(), 90, "messages, each once");
    inbox.quiet("a message twice");
    places.forEach((word, streams) -> Bench.equal(streams.size(), 1, "partitions of " + word));
    Bench.equal(places.size(), 3, "consumers with messages");
  }

  static void again(Environment environment, String stream) {
    environment.streamCreator().stream(stream).create();
    refused(() -> environment.streamCreator().stream(stream).maxLengthBytes(ByteCapacity.MB(7)).create(),
        Constants.RESPONSE_CODE_PRECONDITION_FAILED);
    Bench.equal(environment.streamExists(stream), true, "exists");
    environment.deleteStream(stream);
    Bench.equal(environment.streamExists(stream), false, "exists after it was deleted");
    refused(() -> environment.deleteStream(stream), Constants.RESPONSE_CODE_STREAM_DOES_NOT_EXIST);
  }

  static void refused(Runnable act, short code) {
    try {
      act.run();
    } catch (StreamException error) {
      Bench.equal(error.getCode(), code, "code of " + error);
      return;
    }
    throw new AssertionError("not refused with " + code);
  }

  static void deleted(Environment environment, String stream) throws Exception {
    Bench.Inbox<String> ends = new Bench.Inbox<>();
    Resource.StateListener told = context -> {
      if (context.currentState() == Resource.State.CLOSED) {
        ends.put("closed");
      }
    };
    Producer producer = environment.producerBuilder().stream(stream).listeners(told).build();
    environment.consumerBuilder().stream(stream).listeners(told).messageHandler((context, message) -> { }).build();
    send(producer, 1, 1);
    environment.deleteStream(stream);
    ends.take(2, "ends");
    Bench.Inbox<ConfirmationStatus> confirms = new Bench.Inbox<>();
    producer.send(producer.messageBuilder().addData(new byte[1]).build(), confirms::put);
    Bench.equal(confirms.take("status").isConfirmed(), false, "confirmed after the end");
  }

  static boolean known(Bench.Act act) throws Exception {
    try {
      act.run();
      return true;
    } catch (NoOffsetException none) {
      return false;
    }
  }

  static void stats(Environment environment, String stream) throws Exception {
    StreamStats empty = environment.queryStreamStats(stream);
    Bench.equal(known(empty::firstOffset), false, "first offset of an empty stream known");
    Bench.equal(known(empty::committedOffset), false, "committed offset of an empty stream known");
    fill(environment, stream, 1, 10);
    Bench.equal(environment.queryStreamStats(stream).firstOffset(), 0L, "first offset");
    Bench.eventually(() -> environment.queryStreamStats(stream).committedOffset() == 9, "committed offset 9");
  }

  static void message(Environment environment, String stream) throws Exception {
    UUID id = UUID.randomUUID();
    try (Producer producer = environment.producerBuilder().stream(stream).build()) {
      send(producer, 1, 1, number -> producer.messageBuilder().properties().messageId(id).correlationId(42L).userId("guest".getBytes())
          .to("t").subject("s").replyTo("r").contentType("text/plain").contentEncoding("utf-8").absoluteExpiryTime(1_900_000_000_000L)
          .creationTime(1_700_000_000_000L).groupId("g").groupSequence(3).replyToGroupId("rg").messageBuilder()
          .applicationProperties().entry("text", "grün").entry("int", 7).entry("long", 1L << 40).entry("true", true)
          .entry("double", 2.5).entryUnsigned("uint", 9).entry("id", id).entrySymbol("symbol", "s").messageBuilder()
          .messageAnnotations().entry("x-mine", "kept").messageBuilder().addData("body".getBytes()).build());
    }
    Message seen = read(environment, stream, OffsetSpecification.first()).take("message").message;
    var properties = seen.getProperties();
    Bench.equal(List.of(properties.getMessageIdAsUuid(), properties.getCorrelationIdAsLong(), new String(properties.getUserId()),
            properties.getTo(), properties.getSubject(), properties.getReplyTo(), properties.getContentType(), properties.getContentEncoding(),
            properties.getAbsoluteExpiryTime(), properties.getCreationTime(), properties.getGroupId(), properties.getGroupSequence(),
            properties.getReplyToGroupId()),
        List.of(id, 42L, "guest", "t", "s", "r", "text/plain", "utf-8", 1_900_000_000_000L, 1_700_000_000_000L, "g", 3L, "rg"), "properties");
    Map<String, String> shown = seen.getApplicationProperties().entrySet().stream()
        .collect(Collectors.toMap(Map.Entry::getKey, entry -> entry.getValue().toString()));
    Bench.equal(shown, Map.of("text", "grün", "int", "7", "long", "1099511627776", "true", "true", "double", "2.5", "uint", "9",
        "id", id.toString(), "symbol", "s"), "application properties");
    Bench.equal(seen.getMessageAnnotations().get("x-mine"), "kept", "annotation");
    Bench.equal(new String(seen.getBodyAsBinary()), "body", "body");
  }

  /** The client recovers producers and consumers after each of three cuts and sends again what was not confirmed. */
  static void recovery() throws Exception {
    String stream = Bench.fresh("stream");
    Set<Long> confirmed = ConcurrentHashMap.newKeySet();
    Bench.Inbox<Taken> inbox = new Bench.Inbox<>();
    Bench.Inbox<String> opened = new Bench.Inbox<>();
    Resource.StateListener told = context -> {
      if (context.currentState() == Resource.State.OPEN && context.previousState() == Resource.State.RECOVERING) {
        opened.put("open");
      }
    };
    try (Environment other = builder(Bench.streamPort).build()) {
      other.streamCreator().stream(stream).create();
      try (Environment environment = builder(Bench.relayPort).build()) {
        Producer producer = environment.producerBuilder().stream(stream).name("named").listeners(told).build();
        environment.consumerBuilder().stream(stream).offset(OffsetSpecification.first()).listeners(told)
            .messageHandler((context, message) -> inbox.put(new Taken(new String(message.getBodyAsBinary()), context.offset(), stream, message))).build();
        for (int turn = 0; turn < 4; turn += 1) {
          for (int at = 0; at < 100; at += 1) {
            long number = 100L * turn + at;
            producer.send(producer.messageBuilder().publishingId(number).addData(Long.toString(number).getBytes()).build(), status -> {
              if (status.isConfirmed()) {
                confirmed.add(number);
              }
            });
          }
          if (turn < 3) {
            Bench.cut();
            opened.take(2, "recoveries");
          }
        }
        Bench.eventually(() -> confirmed.size() == 400, "all confirmed");
        Set<Long> seen = new TreeSet<>();
        while (seen.size() < 400) {
          seen.add(Long.parseLong(inbox.take("message").body));
        }
      }
      Bench.Inbox<Taken> all = read(other, stream, OffsetSpecification.first());
      expect(all, words(0, 399), "stored");
      all.quiet("a message stored twice");
      other.deleteStream(stream);
    }
  }

  static void login() {
    try (Environment environment = builder(Bench.streamPort).password("wrong").build()) {
      throw new AssertionError("the environment was opened: " + environment);
    } catch (AuthenticationFailureException refused) {
      Bench.equal(refused.getCode(), Constants.RESPONSE_CODE_AUTHENTICATION_FAILURE, "code of " + refused);
    }
    try (Environment environment = builder(Bench.streamPort).virtualHost("absent").build()) {
      throw new AssertionError("the environment was opened: " + environment);
    } catch (StreamException refused) {
      Bench.equal(refused.getMessage().contains("VIRTUAL_HOST_ACCESS_FAILURE"), true, refused.getMessage());
    }
  }

  public static void main(String[] words) {
    BENCH.add("publish.each", "10,000 messages by one producer", "all confirmed; read in order, with dense offsets", with(JavaStream::each));
    BENCH.add("publish.named", "a named producer sends ids 1 to 5, and after a reconnection 3 to 8", "the last id is known; each is stored once", with(JavaStream::named));
    for (Compression compression : Compression.values()) {
      String word = compression.name().toLowerCase();
      BENCH.add("publish.batch-" + word, "200 messages in batches of 20, compression " + word,
          "all confirmed; read in order, and from the middle of a batch", with((environment, stream) -> batch(environment, stream, compression)));
    }
    BENCH.add("read.offsets", "readers from first, last, next, an offset and a time", "each gets what is from there on", with(JavaStream::offsets));
    BENCH.add("read.stored", "an offset stored by hand, and another reader of that name", "it goes on behind that", with(JavaStream::stored));
    BENCH.add("read.auto-stored", "offsets stored by the client after every 100 messages", "the last of them is kept", with(JavaStream::autoStored));
    BENCH.add("read.filter", "messages with filter values in chunks of their own, a reader of one value", "the other's are not sent", with(JavaStream::filter));
    BENCH.add("single.takes-over", "two single active consumers, of which the active one leaves", "the other is told, and goes on from where it says", with(JavaStream::single));
    BENCH.add("super.hash", "70 messages to a super stream by the hash of their key, read by a super stream consumer", "all arrive; those with one key in order, from one partition", withSuper(JavaStream::spread));
    BENCH.add("super.key", "partitions with binding keys; a key without one", "each message in the partition of its key; refused by the client", withSuper(JavaStream::keys, "north", "south", "east"));
    BENCH.add("super.single", "three single active consumers of a super stream of three partitions", "each has one; each message comes once", withSuper(JavaStream::shared));
    BENCH.add("stream.again", "a stream created twice, alike and otherwise; deleted twice", "taken, `PRECONDITION_FAILED`; `STREAM_DOES_NOT_EXIST`", with(JavaStream::again));
    BENCH.add("stream.deleted", "a stream is deleted below a producer and a consumer", "both are closed", with(JavaStream::deleted));
    BENCH.add("stream.stats", "statistics of a stream, empty and with ten messages", "no offsets; 0 and 9", with(JavaStream::stats));
    BENCH.add("message.all", "properties, application properties and annotations", "equal", with(JavaStream::message));
    BENCH.add("recovery.cut", "three cuts while a named producer sends", "producer and consumer come back; each message is stored once", JavaStream::recovery);
    BENCH.add("login.refused", "a wrong password; a virtual host that is not there", "`AUTHENTICATION_FAILURE`; `VIRTUAL_HOST_ACCESS_FAILURE`", JavaStream::login);
    BENCH.run(words);
  }
}
