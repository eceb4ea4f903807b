import static com.rabbitmq.client.amqp.Management.ExchangeType.FANOUT;
import static com.rabbitmq.client.amqp.Management.ExchangeType.TOPIC;
import static com.rabbitmq.client.amqp.Management.QueueType.CLASSIC;
import static com.rabbitmq.client.amqp.Management.QueueType.QUORUM;

import com.rabbitmq.client.amqp.AmqpException;
import com.rabbitmq.client.amqp.BackOffDelayPolicy;
import com.rabbitmq.client.amqp.Connection;
import com.rabbitmq.client.amqp.ConnectionBuilder;
import com.rabbitmq.client.amqp.Consumer;
import com.rabbitmq.client.amqp.Environment;
import com.rabbitmq.client.amqp.Management;
import com.rabbitmq.client.amqp.Message;
import com.rabbitmq.client.amqp.Publisher;
import com.rabbitmq.client.amqp.Requester;
import com.rabbitmq.client.amqp.Resource;
import com.rabbitmq.client.amqp.Responder;
import com.rabbitmq.client.amqp.impl.AmqpEnvironmentBuilder;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** RabbitMQ's Java client for AMQP 1.0: it declares over the management node and recovers by itself. */
final class Java10 {
  private static final Bench BENCH = new Bench("java-10");

  interface OnQueue {
    void run(Connection connection, String queue) throws Exception;
  }

  static ConnectionBuilder builder(Environment environment) {
    return environment.connectionBuilder().host(Bench.uri.getHost()).port(Bench.port()).username(Bench.user()).password(Bench.password());
  }

  /** A case with a connection and a queue that is deleted at the end. */
  static Bench.Act with(Management.QueueType type, OnQueue act) {
    return () -> {
      String queue = Bench.fresh("queue");
      try (Environment environment = new AmqpEnvironmentBuilder().build(); Connection connection = builder(environment).build()) {
        connection.management().queue(queue).type(type).declare();
        try {
          act.run(connection, queue);
        } finally {
          connection.management().queueDelete(queue);
        }
      }
    };
  }

  static Bench.Inbox<Publisher.Status> publish(Publisher publisher, int from, int to) {
    Bench.Inbox<Publisher.Status> statuses = new Bench.Inbox<>();
    for (int number = from; number <= to; number += 1) {
      Message message = publisher.message(Integer.toString(number).getBytes()).messageId((long) number);
      publisher.publish(message, context -> statuses.put(context.status()));
    }
    return statuses;
  }

  static void fill(Connection connection, String queue, int from, int to) throws Exception {
    try (Publisher publisher = connection.publisherBuilder().queue(queue).build()) {
      Set<Publisher.Status> seen = Set.copyOf(publish(publisher, from, to).take(to - from + 1, "confirms"));
      Bench.equal(seen, Set.of(Publisher.Status.ACCEPTED), "statuses");
    }
  }

  record Taken(String body, Message message, Consumer.Context context) {}

  static Consumer consume(Connection connection, String queue, int credits, Bench.Inbox<Taken> inbox) {
    return connection.consumerBuilder().queue(queue).initialCredits(credits)
        .messageHandler((context, message) -> inbox.put(new Taken(new String(message.body()), message, context))).build();
  }

  static String words(List<Taken> taken) {
    return taken.stream().map(Taken::body).collect(Collectors.joining(" "));
  }

  static void publishing(Connection connection, String queue) throws Exception {
    fill(connection, queue, 1, 1000);
    Bench.equal(connection.management().queueInfo(queue).messageCount(), 1000L, "messages");
    Bench.equal(connection.management().queuePurge(queue) != null, true, "purged");
    Bench.equal(connection.management().queueInfo(queue).messageCount(), 0L, "messages after the purge");
  }

  static void unroutable(Connection connection, String queue) throws Exception {
    try (Publisher publisher = connection.publisherBuilder().exchange("amq.direct").key(Bench.fresh("key")).build()) {
      Bench.equal(publish(publisher, 1, 1).take("status"), Publisher.Status.RELEASED, "status");
    }
    try (Publisher anywhere = connection.publisherBuilder().build()) {
      Bench.Inbox<Publisher.Status> statuses = new Bench.Inbox<>();
      anywhere.publish(anywhere.message(new byte[1]).toAddress().queue(queue).message(), it -> statuses.put(it.status()));
      Bench.equal(statuses.take("status"), Publisher.Status.ACCEPTED, "to the queue in the message");
    }
  }

  static void outcomes(Connection connection, String queue) throws Exception {
    fill(connection, queue, 1, 3);
    Bench.Inbox<Taken> inbox = new Bench.Inbox<>();
    try (Consumer consumer = consume(connection, queue, 10, inbox)) {
      List<Taken> first = inbox.take(3, "messages");
      first.get(0).context().accept();
      first.get(1).context().discard();
      first.get(2).context().requeue();
      Bench.equal(words(inbox.take(1, "requeued")), "3", "requeued");
      inbox.quiet("a message too many");
      Bench.equal(consumer.unsettledMessageCount(), 1L, "unsettled");
    }
  }

  static void annotated(Connection connection, String queue) throws Exception {
    fill(connection, queue, 1, 1);
    Bench.Inbox<Taken> inbox = new Bench.Inbox<>();
    try (Consumer consumer = consume(connection, queue, 10, inbox)) {
      inbox.take("message").context().requeue(Map.of("x-opt-why", "again"));
      Bench.equal(inbox.take("message").message().annotation("x-opt-why"), "again", "annotation");
    }
  }

  static void batch(Connection connection, String queue) throws Exception {
    fill(connection, queue, 1, 100);
    Bench.Inbox<Taken> inbox = new Bench.Inbox<>();
    try (Consumer consumer = consume(connection, queue, 100, inbox)) {
      List<Taken> taken = inbox.take(100, "messages");
      Consumer.BatchContext all = taken.get(0).context().batch(100);
      taken.forEach(it -> all.add(it.context()));
      all.accept();
      Bench.eventually(() -> consumer.unsettledMessageCount() == 0, "all settled");
    }
    Bench.equal(connection.management().queueInfo(queue).messageCount(), 0L, "messages left");
  }

  static void pause(Connection connection, String queue) throws Exception {
    Bench.Inbox<Taken> inbox = new Bench.Inbox<>();
    try (Consumer consumer = consume(connection, queue, 5, inbox)) {
      fill(connection, queue, 1, 3);
      inbox.take(3, "messages").forEach(it -> it.context().accept());
      consumer.pause();
      fill(connection, queue, 4, 6);
      inbox.quiet("a message while paused");
      consumer.unpause();
      Bench.equal(words(inbox.take(3, "messages")), "4 5 6", "after the pause");
    }
  }

  static void message(Connection connection, String queue) throws Exception {
    Bench.Inbox<Taken> inbox = new Bench.Inbox<>();
    UUID id = UUID.randomUUID();
    try (Publisher publisher = connection.publisherBuilder().queue(queue).build(); Consumer consumer = consume(connection, queue, 1, inbox)) {
      Message sent = publisher.message("body".getBytes()).messageId(id).correlationId(42L).userId(Bench.user().getBytes()).subject("s")
          .replyTo("/r").contentType("text/plain").contentEncoding("utf-8").absoluteExpiryTime(1_900_000_000_000L).creationTime(1_700_000_000_000L)
          .groupId("g").groupSequence(3).replyToGroupId("rg").property("text", "grün").property("int", 7).property("long", 1L << 40)
          .property("true", true).property("double", 2.5).propertyUnsigned("uint", 9).propertyTimestamp("time", 1_700_000_000_000L)
          .propertySymbol("symbol", "s").annotation("x-mine", "kept").priority((byte) 7).durable(true);
      Bench.Inbox<Publisher.Status> statuses = new Bench.Inbox<>();
      publisher.publish(sent, it -> statuses.put(it.status()));
      Message seen = inbox.take("message").message();
      Bench.equal(seen.messageIdAsUuid(), id, "message id");
      Bench.equal(seen.correlationIdAsLong(), 42L, "correlation id");
      Bench.equal(List.of(seen.subject(), seen.replyTo(), seen.contentType(), seen.contentEncoding(), seen.absoluteExpiryTime(), seen.creationTime(),
          seen.groupId(), seen.groupSequence(), seen.replyToGroupId(), seen.priority(), seen.durable(), new String(seen.userId())),
          List.of("s", "/r", "text/plain", "utf-8", 1_900_000_000_000L, 1_700_000_000_000L, "g", 3, "rg", (byte) 7, true, Bench.user()), "properties");
      for (String name : List.of("text", "int", "long", "true", "double", "uint", "symbol")) {
        Bench.equal(String.valueOf(seen.property(name)), String.valueOf(sent.property(name)), name);
      }
      Bench.equal(seen.property("time"), 1_700_000_000_000L, "time");
      Bench.equal(seen.annotation("x-mine"), "kept", "annotation");
    }
  }

  static void topology(Connection connection, String queue) throws Exception {
    Management management = connection.management();
    String outer = Bench.fresh("outer");
    String inner = Bench.fresh("inner");
    management.exchange(outer).type(TOPIC).declare();
    management.exchange(inner).type(FANOUT).autoDelete(true).declare();
    management.binding().sourceExchange(outer).destinationExchange(inner).key("a.#").bind();
    management.binding().sourceExchange(inner).destinationQueue(queue).bind();
    Bench.Inbox<Taken> inbox = new Bench.Inbox<>();
    try (Publisher publisher = connection.publisherBuilder().exchange(outer).key("a.b.c").build(); Consumer consumer = consume(connection, queue, 10, inbox)) {
      Bench.equal(publish(publisher, 1, 1).take("status"), Publisher.Status.ACCEPTED, "while bound");
      Bench.equal(words(inbox.take(1, "message")), "1", "through both");
      management.unbind().sourceExchange(outer).destinationExchange(inner).key("a.#").unbind();
      Bench.equal(publish(publisher, 2, 2).take("status"), Publisher.Status.RELEASED, "after the unbinding");
    }
    management.unbind().sourceExchange(inner).destinationQueue(queue).unbind();
    management.exchangeDelete(outer);
    String named = management.queue().exclusive(true).autoDelete(true).declare().name();
    Management.QueueInfo info = management.queueInfo(named);
    Bench.equal(List.of(info.exclusive(), info.autoDelete(), info.messageCount(), info.consumerCount(), info.type()),
        List.of(true, true, 0L, 0, CLASSIC), "server-named queue");
    management.queueDelete(named);
  }

  static void errors(Connection connection, String queue) throws Exception {
    Management management = connection.management();
    refused(() -> management.queueInfo(Bench.fresh("absent")), "AmqpEntityDoesNotExistException", "404");
    refused(() -> management.queue(queue).type(QUORUM).declare(), "AmqpException", "409");
    refused(() -> connection.publisherBuilder().queue(Bench.fresh("absent")).build(), "AmqpEntityDoesNotExistException", "not-found");
    refused(() -> connection.consumerBuilder().queue(Bench.fresh("absent")).messageHandler((context, message) -> { }).build(),
        "AmqpEntityDoesNotExistException", "not-found");
    fill(connection, queue, 1, 1);
  }

  static void refused(Bench.Act act, String kind, String text) throws Exception {
    try {
      act.run();
    } catch (AmqpException error) {
      Bench.equal(error.getClass().getSimpleName(), kind, "kind of " + error);
      if (kind.equals("AmqpException")) {
        Bench.equal(error.getMessage().contains(text), true, text + " in " + error.getMessage());
      }
      return;
    }
    throw new AssertionError("not refused: " + text);
  }

  /**
   * The client ends its event loop with a connection that is refused, and may then still hand it that connection's end: once in some
   * twenty times its own call fails so, whatever the server said, and is made again.
   */
  static void login() throws Exception {
    for (int left = 3; ; left -= 1) {
      try (Environment environment = new AmqpEnvironmentBuilder().build()) {
        refused(() -> builder(environment).password("wrong").build(), "AmqpSecurityException", "");
        return;
      } catch (RejectedExecutionException ended) {
        if (left == 1) {
          throw ended;
        }
      }
    }
  }

  /** Requests and replies by the client's own pattern: its reply queue is one of the server's. */
  static void requests(Connection connection, String queue) throws Exception {
    try (Responder responder = connection.responderBuilder().requestQueue(queue)
            .handler((context, message) -> context.message(new String(message.body()).toUpperCase().getBytes())).build();
        Requester requester = connection.requesterBuilder().requestAddress().queue(queue).requester().build()) {
      List<CompletableFuture<Message>> answers = IntStream.range(0, 50)
          .mapToObj(number -> requester.publish(requester.message(("call " + number).getBytes()))).toList();
      for (int number = 0; number < 50; number += 1) {
        byte[] answer = answers.get(number).get(Bench.WAIT_MS, TimeUnit.MILLISECONDS).body();
        Bench.equal(new String(answer), "CALL " + number, "answer");
      }
    }
  }

  static void deleted(Connection connection, String queue) throws Exception {
    Bench.Inbox<String> states = new Bench.Inbox<>();
    String other = Bench.fresh("other");
    connection.management().queue(other).type(CLASSIC).declare();
    connection.consumerBuilder().queue(other).messageHandler((context, message) -> { })
        .listeners(context -> {
          if (context.currentState() == Resource.State.CLOSED) {
            states.put(String.valueOf(context.failureCause()));
          }
        }).build();
    connection.management().queueDelete(other);
    Bench.equal(states.take("end of the consumer").contains("resource-deleted"), true, "why it ended");
  }

  /** The client recovers connection, topology, publishers and consumers after each of three cuts. */
  static void recovery() throws Exception {
    Bench.Inbox<String> opened = new Bench.Inbox<>();
    Set<Long> confirmed = ConcurrentHashMap.newKeySet();
    Set<Long> seen = ConcurrentHashMap.newKeySet();
    String queue = Bench.fresh("queue");
    try (Environment environment = new AmqpEnvironmentBuilder().build(); Connection other = builder(environment).build();
        Connection connection = builder(environment).host("127.0.0.1").port(Bench.relayPort)
            .recovery().backOffDelayPolicy(BackOffDelayPolicy.fixed(Duration.ofMillis(100))).connectionBuilder()
            .listeners(context -> {
              if (context.currentState() == Resource.State.OPEN && context.previousState() == Resource.State.RECOVERING) {
                opened.put("open");
              }
            }).build()) {
      other.management().queue(queue).type(QUORUM).declare();
      String own = connection.management().queue(Bench.fresh("own")).exclusive(true).declare().name();
      Bench.Inbox<Taken> fromOwn = new Bench.Inbox<>();
      consume(connection, own, 10, fromOwn);
      connection.consumerBuilder().queue(queue).messageHandler((context, message) -> {
        seen.add(message.messageIdAsLong());
        context.accept();
      }).build();
      Publisher publisher = connection.publisherBuilder().queue(queue).build();
      long number = 0;
      for (int turn = 1; turn <= 3; turn += 1) {
        for (int at = 0; at < 50; at += 1) {
          long id = number++;
          publisher.publish(publisher.message(new byte[8]).messageId(id), context -> {
            if (context.status() == Publisher.Status.ACCEPTED) {
              confirmed.add(id);
            }
          });
        }
        Bench.cut();
        opened.take("recovery");
        try (Publisher toOwn = connection.publisherBuilder().queue(own).build()) {
          publish(toOwn, turn, turn);
          Bench.equal(words(fromOwn.take(1, "message")), Integer.toString(turn), "through the exclusive queue");
        }
      }
      fill(other, queue, 1_000_000, 1_000_000);
      Bench.eventually(() -> seen.contains(1_000_000L) && seen.containsAll(confirmed), "all confirmed were consumed");
      Bench.equal(new TreeSet<>(seen).last(), 1_000_000L, "the last");
      other.management().queueDelete(queue);
    }
  }

  public static void main(String[] words) {
    BENCH.add("publish.classic", "1,000 messages to a classic queue, counted, purged", "each accepted", with(CLASSIC, Java10::publishing));
    BENCH.add("publish.quorum", "1,000 messages to a quorum queue, counted, purged", "each accepted", with(QUORUM, Java10::publishing));
    BENCH.add("publish.unroutable", "an unbound key; a publisher without an address", "released; accepted", with(QUORUM, Java10::unroutable));
    BENCH.add("consume.outcomes", "accept, discard, requeue", "what was requeued comes again", with(QUORUM, Java10::outcomes));
    BENCH.add("consume.annotated", "requeue with an annotation", "the message comes again with it", with(QUORUM, Java10::annotated));
    BENCH.add("consume.batch", "100 messages settled as one batch", "all settled", with(QUORUM, Java10::batch));
    BENCH.add("consume.pause", "a consumer paused and resumed", "nothing comes in between", with(CLASSIC, Java10::pause));
    BENCH.add("consume.deleted", "the queue of a consumer is deleted", "closed with `amqp:resource-deleted`", with(CLASSIC, Java10::deleted));
    BENCH.add("message.all", "all properties, and application properties of many types", "equal", with(QUORUM, Java10::message));
    BENCH.add("management.topology", "exchanges, bindings of both kinds, a queue named by the client, unbound and deleted again", "routed while bound, released after", with(QUORUM, Java10::topology));
    BENCH.add("management.errors", "what is not there, and a queue declared otherwise than it is", "404, 409, `amqp:not-found`; the connection lives", with(CLASSIC, Java10::errors));
    BENCH.add("error.login", "a wrong password", "`AmqpSecurityException`", Java10::login);
    BENCH.add("rpc.requester", "`Requester` and `Responder`: 50 calls", "each its answer", with(CLASSIC, Java10::requests));
    BENCH.add("recovery.cut", "three cuts while messages are published", "connection, exclusive queue and consumers come back; what was confirmed is consumed", Java10::recovery);
    BENCH.run(words);
  }
}
