import com.rabbitmq.client.AMQP;
import com.rabbitmq.client.AlreadyClosedException;
import com.rabbitmq.client.AuthenticationFailureException;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.DefaultConsumer;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.Envelope;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import com.rabbitmq.client.Recoverable;
import com.rabbitmq.client.RecoveryListener;
import com.rabbitmq.client.RpcClient;
import com.rabbitmq.client.RpcClientParams;
import com.rabbitmq.client.RpcServer;
import com.rabbitmq.client.ShutdownSignalException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Date;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** RabbitMQ's Java client for AMQP 0-9-1, as Spring's listener containers and templates drive it. */
final class Java091 {
  private static final Bench BENCH = new Bench("java-091");

  interface OnChannel {
    void run(Connection connection, Channel channel, String queue) throws Exception;
  }

  static ConnectionFactory factory() {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setHost(Bench.uri.getHost());
    factory.setPort(Bench.port());
    factory.setUsername(Bench.user());
    factory.setPassword(Bench.password());
    factory.setAutomaticRecoveryEnabled(false);
    factory.setNetworkRecoveryInterval(100);
    return factory;
  }

  /** A case with a connection, a channel and a durable queue that is deleted at the end. */
  static Bench.Act with(OnChannel act) {
    return () -> {
      String queue = Bench.fresh("queue");
      try (Connection connection = factory().newConnection()) {
        Channel channel = connection.createChannel();
        channel.queueDeclare(queue, true, false, false, null);
        try {
          act.run(connection, channel, queue);
        } finally {
          try (Connection other = factory().newConnection()) {
            other.createChannel().queueDelete(queue);
          }
        }
      } catch (AlreadyClosedException closed) {
        // the case has closed it
      }
    };
  }

  static void fill(Connection connection, String queue, int from, int to) throws Exception {
    try (Channel channel = connection.createChannel()) {
      channel.confirmSelect();
      for (int number = from; number <= to; number += 1) {
        channel.basicPublish("", queue, MessageProperties.PERSISTENT_TEXT_PLAIN, Integer.toString(number).getBytes());
      }
      channel.waitForConfirmsOrDie(Bench.WAIT_MS);
    }
  }

  static Bench.Inbox<Delivery> consume(Channel channel, String queue, boolean autoAck) throws Exception {
    Bench.Inbox<Delivery> inbox = new Bench.Inbox<>();
    channel.basicConsume(queue, autoAck, (tag, delivery) -> inbox.put(delivery), tag -> { });
    return inbox;
  }

  /** Bodies; `*` marks a redelivered one. */
  static String words(List<Delivery> deliveries) {
    return deliveries.stream()
        .map(it -> new String(it.getBody()) + (it.getEnvelope().isRedeliver() ? "*" : ""))
        .collect(Collectors.joining(" "));
  }

  static long tag(Delivery delivery) {
    return delivery.getEnvelope().getDeliveryTag();
  }

  static void confirms(Connection connection, Channel channel, String queue) throws Exception {
    channel.confirmSelect();
    Set<Long> acked = Collections.synchronizedSet(new HashSet<>());
    Set<Long> sent = Collections.synchronizedSet(new HashSet<>());
    channel.addConfirmListener((last, multiple) -> {
      synchronized (sent) {
        sent.stream().filter(number -> multiple ? number <= last : number == last).forEach(acked::add);
      }
    }, (last, multiple) -> acked.clear());
    for (int number = 0; number < 1000; number += 1) {
      sent.add(channel.getNextPublishSeqNo());
      channel.basicPublish("", queue, MessageProperties.MINIMAL_PERSISTENT_BASIC, new byte[12]);
    }
    Bench.eventually(() -> acked.size() == 1000, "all acked");
    Bench.equal(channel.queueDeclarePassive(queue).getMessageCount(), 1000, "messages");
  }

  static void returned(Connection connection, Channel channel, String queue) throws Exception {
    Bench.Inbox<String> inbox = new Bench.Inbox<>();
    channel.confirmSelect();
    channel.addReturnListener(back -> inbox.put(back.getReplyCode() + " " + back.getReplyText()));
    channel.addConfirmListener((number, multiple) -> inbox.put("ack"), (number, multiple) -> inbox.put("nack"));
    channel.basicPublish("", Bench.fresh("absent"), true, null, new byte[1]);
    Bench.equal(inbox.take(2, "events"), List.of("312 NO_ROUTE", "ack"), "events");
  }

  /** A listener container: several consumers, a prefetch each, acks after work, a poisoned message rejected. */
  static void container(Connection connection, Channel channel, String queue) throws Exception {
    Bench.Inbox<String> done = new Bench.Inbox<>();
    Set<String> lanes = Collections.synchronizedSet(new HashSet<>());
    for (int lane = 0; lane < 3; lane += 1) {
      Channel own = connection.createChannel();
      own.basicQos(5);
      own.basicConsume(queue, false, "lane " + lane, new DefaultConsumer(own) {
        @Override
        public void handleDelivery(String tag, Envelope envelope, AMQP.BasicProperties properties, byte[] body) throws java.io.IOException {
          lanes.add(tag);
          String word = new String(body);
          if (word.equals("13")) {
            own.basicReject(envelope.getDeliveryTag(), false);
            done.put("rejected");
          } else if (word.equals("7") && !envelope.isRedeliver()) {
            own.basicNack(envelope.getDeliveryTag(), false, true);
          } else {
            own.basicAck(envelope.getDeliveryTag(), false);
            done.put(word);
          }
        }
      });
    }
    fill(connection, queue, 1, 300);
    Set<String> seen = new HashSet<>(done.take(300, "messages"));
    done.quiet("a message too many");
    Set<String> expected = IntStream.rangeClosed(1, 300).mapToObj(Integer::toString).collect(Collectors.toSet());
    expected.remove("13");
    expected.add("rejected");
    Bench.equal(seen, expected, "messages");
    Bench.equal(lanes.size(), 3, "consumers that had some");
  }

  static void settle(Connection connection, Channel channel, String queue) throws Exception {
    fill(connection, queue, 1, 6);
    Bench.Inbox<Delivery> inbox = consume(channel, queue, false);
    List<Delivery> first = inbox.take(6, "deliveries");
    channel.basicAck(tag(first.get(1)), true);
    channel.basicNack(tag(first.get(3)), true, true);
    Bench.equal(words(inbox.take(2, "requeued")), "3* 4*", "after nack of many");
    channel.basicReject(tag(first.get(4)), true);
    Bench.equal(words(inbox.take(1, "requeued")), "5*", "after reject");
    channel.basicRecover(true);
    Bench.equal(words(inbox.take(4, "recovered")), "3* 4* 5* 6*", "after recover");
    inbox.quiet("a delivery too many");
  }

  static void prefetch(Connection connection, Channel channel, String queue) throws Exception {
    fill(connection, queue, 1, 5);
    channel.basicQos(2);
    Bench.Inbox<Delivery> inbox = consume(channel, queue, false);
    List<Delivery> first = inbox.take(2, "deliveries");
    inbox.quiet("over the prefetch");
    channel.basicAck(tag(first.get(0)), false);
    Bench.equal(words(inbox.take(1, "delivery")), "3", "after one ack");
    inbox.quiet("over the prefetch");
  }

  static void exclusive(Connection connection, Channel channel, String queue) throws Exception {
    channel.basicConsume(queue, true, "only", false, true, null, (tag, delivery) -> { }, tag -> { });
    Channel other = connection.createChannel();
    closed(() -> other.basicConsume(queue, true, (tag, delivery) -> { }, tag -> { }), 403,
        "ACCESS_REFUSED - queue '" + queue + "' in vhost '/' in exclusive use");
  }

  static void closed(Bench.Act act, int code, String text) throws Exception {
    try {
      act.run();
    } catch (Exception error) {
      Throwable cause = error instanceof ShutdownSignalException ? error : error.getCause();
      if (cause instanceof ShutdownSignalException signal && signal.getReason() instanceof AMQP.Channel.Close close) {
        Bench.equal(close.getReplyCode() + " " + close.getReplyText(), code + " " + text, "close");
        return;
      }
      throw error;
    }
    throw new AssertionError("not refused");
  }

  static void errors(Connection connection, Channel channel, String queue) throws Exception {
    String absent = Bench.fresh("absent");
    closed(() -> connection.createChannel().queueDeclarePassive(absent), 404, "NOT_FOUND - no queue '" + absent + "' in vhost '/'");
    closed(() -> connection.createChannel().queueDeclare(queue, false, false, false, null), 406,
        "PRECONDITION_FAILED - inequivalent arg 'durable' for queue '" + queue + "' in vhost '/': received 'false' but current is 'true'");
    closed(() -> connection.createChannel().exchangeDeclare("amq.mine", "direct"), 403,
        "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'");
    Bench.equal(connection.isOpen() && channel.isOpen(), true, "the rest is open");
  }

  static void login() throws Exception {
    ConnectionFactory factory = factory();
    factory.setPassword("wrong");
    try (Connection connection = factory.newConnection()) {
      throw new AssertionError("logged in");
    } catch (AuthenticationFailureException refused) {
      Bench.equal(refused.getMessage().contains("ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN"), true,
          refused.getMessage());
    }
  }

  static void properties(Connection connection, Channel channel, String queue) throws Exception {
    Map<String, Object> headers = new HashMap<>();
    headers.put("int", 7);
    headers.put("long", 1L << 40);
    headers.put("double", 2.5);
    headers.put("float", 1.5f);
    headers.put("short", (short) -3);
    headers.put("byte", (byte) -1);
    headers.put("true", true);
    headers.put("void", null);
    headers.put("time", new Date(1_700_000_000_000L));
    headers.put("list", List.of(1, 2L));
    headers.put("table", Map.of("inner", 1));
    AMQP.BasicProperties sent = new AMQP.BasicProperties("text/plain", "utf-8", headers, 2, 7, "c", "r", "60000", "m",
        new Date(1_700_000_000_000L), "t", Bench.user(), "a", null);
    channel.basicPublish("", queue, sent, new byte[1]);
    AMQP.BasicProperties seen = consume(channel, queue, true).take("delivery").getProperties();
    Bench.equal(seen, sent, "properties");
  }

  static void published(Connection connection, Channel channel, String queue) throws Exception {
    for (int number = 0; number < 50; number += 1) {
      channel.basicPublish("", queue, number % 2 == 0 ? MessageProperties.MINIMAL_BASIC : MessageProperties.MINIMAL_PERSISTENT_BASIC,
          Integer.toString(number).getBytes());
      GetResponse got = channel.basicGet(queue, true);
      Bench.equal(got == null ? null : new String(got.getBody()), Integer.toString(number), "message");
    }
    Bench.equal(channel.basicGet(queue, true), null, "get from an empty queue");
  }

  static void directReply(Connection connection, Channel channel, String queue) throws Exception {
    RpcServer server = new RpcServer(connection.createChannel(), queue) {
      @Override
      public byte[] handleCall(byte[] body, AMQP.BasicProperties properties) {
        return new String(body).toUpperCase().getBytes();
      }
    };
    Thread serving = new Thread(() -> {
      try {
        server.mainloop();
      } catch (Exception ended) {
        // with its connection
      }
    });
    serving.setDaemon(true);
    serving.start();
    RpcClientParams parameters = new RpcClientParams().channel(channel).exchange("").routingKey(queue).timeout(15_000);
    try (RpcClient client = new RpcClient(parameters)) {
      for (int number = 0; number < 50; number += 1) {
        Bench.equal(client.stringCall("call " + number), "CALL " + number, "answer");
      }
    }
    server.terminateMainloop();
  }

  static void transaction(Connection connection, Channel channel, String queue) throws Exception {
    channel.txSelect();
    channel.basicPublish("", queue, null, "kept".getBytes());
    channel.txCommit();
    channel.basicPublish("", queue, null, "dropped".getBytes());
    channel.txRollback();
    GetResponse got = channel.basicGet(queue, false);
    channel.basicAck(got.getEnvelope().getDeliveryTag(), false);
    channel.txRollback();
    channel.basicRecover(true);
    Channel other = connection.createChannel();
    Bench.equal(channel.basicGet(queue, true) != null, true, "an ack rolled back leaves the message");
    Bench.equal(other.basicGet(queue, true), null, "what was rolled back");
  }

  static void exchanges(Connection connection, Channel channel, String queue) throws Exception {
    Bench.Inbox<Delivery> inbox = consume(channel, queue, true);
    String outer = Bench.fresh("outer");
    channel.exchangeDeclare(outer, "direct");
    String[][] rows = {{"direct", "key", "key"}, {"topic", "a.#", "a.b.c"}, {"fanout", "", "any"}};
    for (String[] row : rows) {
      String exchange = Bench.fresh(row[0]);
      channel.exchangeDeclare(exchange, row[0]);
      channel.exchangeBind(exchange, outer, row[2]);
      channel.queueBind(queue, exchange, row[1]);
      channel.basicPublish(outer, row[2], null, row[0].getBytes());
      Bench.equal(words(inbox.take(1, "message")), row[0], "through two exchanges");
      channel.exchangeUnbind(exchange, outer, row[2]);
      channel.exchangeDelete(exchange);
    }
    channel.exchangeDelete(outer);
    inbox.quiet("a message too many");
  }

  /** Consumers, exclusive and server-named queues, exchanges and bindings come back after each of three cuts. */
  static void recovery() throws Exception {
    ConnectionFactory factory = factory();
    factory.setHost("127.0.0.1");
    factory.setPort(Bench.relayPort);
    factory.setAutomaticRecoveryEnabled(true);
    factory.setTopologyRecoveryEnabled(true);
    String durable = Bench.fresh("durable");
    String exchange = Bench.fresh("exchange");
    Bench.Inbox<String> recovered = new Bench.Inbox<>();
    try (Connection connection = factory.newConnection(); Connection other = factory().newConnection()) {
      ((Recoverable) connection).addRecoveryListener(new RecoveryListener() {
        @Override
        public void handleRecovery(Recoverable what) {
          recovered.put("recovered");
        }

        @Override
        public void handleRecoveryStarted(Recoverable what) {
          // the end counts
        }
      });
      Channel channel = connection.createChannel();
      channel.basicQos(10);
      channel.queueDeclare(durable, true, false, false, null);
      channel.exchangeDeclare(exchange, "topic", false, true, null);
      String named = channel.queueDeclare().getQueue();
      channel.queueBind(named, exchange, "a.*");
      Bench.Inbox<Delivery> fromNamed = consume(channel, named, true);
      Bench.Inbox<Delivery> fromDurable = consume(channel, durable, false);
      Channel publishing = connection.createChannel();
      publishing.confirmSelect();
      fill(other, durable, 1, 2);
      Bench.equal(words(fromDurable.take(2, "deliveries")), "1 2", "before the cut");
      for (int turn = 1; turn <= 3; turn += 1) {
        Bench.cut();
        recovered.take("recovery");
        Bench.equal(words(fromDurable.take(2, "deliveries")), "1* 2*", "after cut " + turn);
        publishing.basicPublish(exchange, "a.b", null, ("turn " + turn).getBytes());
        publishing.waitForConfirmsOrDie(Bench.WAIT_MS);
        Bench.equal(words(fromNamed.take(1, "message")), "turn " + turn, "through what was declared again");
      }
      other.createChannel().queueDelete(durable);
    }
  }

  static void cancelled(Connection connection, Channel channel, String queue) throws Exception {
    Bench.Inbox<String> inbox = new Bench.Inbox<>();
    channel.basicConsume(queue, true, "mine", (tag, delivery) -> { }, inbox::put);
    connection.createChannel().queueDelete(queue);
    Bench.equal(inbox.take("cancel"), "mine", "cancelled");
  }

  static void many(Connection connection, Channel channel, String queue) throws Exception {
    List<Connection> connections = new ArrayList<>();
    for (int number = 0; number < 20; number += 1) {
      Connection one = factory().newConnection();
      connections.add(one);
      for (int lane = 0; lane < 5; lane += 1) {
        fill(one, queue, 1, 10);
      }
    }
    Bench.equal(channel.queueDeclarePassive(queue).getMessageCount(), 1000, "messages");
    for (Connection one : connections) {
      one.close();
    }
  }

  public static void main(String[] words) {
    BENCH.add("publish.confirm", "1,000 persistent messages, a confirm listener", "each acked", with(Java091::confirms));
    BENCH.add("publish.return", "a mandatory message that no queue takes", "basic.return 312 `NO_ROUTE`, then its ack", with(Java091::returned));
    BENCH.add("consume.container", "three consumers with a prefetch of 5, acking, requeueing, rejecting", "each message done once", with(Java091::container));
    BENCH.add("consume.settle", "ack and nack of many, reject, recover", "what was requeued comes again, redelivered=true", with(Java091::settle));
    BENCH.add("consume.prefetch", "a prefetch of 2", "two at once; each ack brings one more", with(Java091::prefetch));
    BENCH.add("consume.exclusive", "a second consumer beside an exclusive one", "403 `in exclusive use`", with(Java091::exclusive));
    BENCH.add("consume.cancelled", "the queue of a consumer is deleted", "its cancel callback is called", with(Java091::cancelled));
    BENCH.add("get.published", "publish without confirms, then get on the same channel", "the message", with(Java091::published));
    BENCH.add("properties.all", "all properties and header types", "equal", with(Java091::properties));
    BENCH.add("error.channel", "an absent queue, a queue declared otherwise than it is, a reserved name", "404, 406, 403; the connection lives", with(Java091::errors));
    BENCH.add("error.login", "a wrong password", "403 `ACCESS_REFUSED`", Java091::login);
    BENCH.add("rpc.direct-reply", "`RpcClient` and `RpcServer`: 50 calls with `amq.rabbitmq.reply-to`", "each its answer", with(Java091::directReply));
    BENCH.add("transaction.all", "a commit, a rollback of a publish, a rollback of an ack", "as if the rolled back had not been", with(Java091::transaction));
    BENCH.add("exchange.bind", "direct, topic and fanout exchanges bound to an exchange", "routed through both", with(Java091::exchanges));
    BENCH.add("recovery.topology", "automatic recovery of connection and topology after three cuts", "everything is declared again; unsettled messages come again, redelivered=true", Java091::recovery);
    BENCH.add("connection.many", "20 connections, 100 channels opened and closed", "all messages there", with(Java091::many));
    BENCH.run(words);
  }
}
