import static com.rabbitmq.client.amqp.Management.QueueType.CLASSIC;
import static com.rabbitmq.client.amqp.Management.QueueType.QUORUM;

import com.rabbitmq.client.amqp.Management;
import jakarta.jms.DeliveryMode;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.MessageProducer;
import jakarta.jms.Queue;
import jakarta.jms.QueueBrowser;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Qpid JMS as it is released: selectors of consumers and browsers on queues. RabbitMQ passes over them. */
final class QpidJms {
  private static final Bench BENCH = new Bench("qpid-jms");
  private static final long WAIT_MS = 10_000;
  private static final long NOTHING_MS = 300;

  /** A selector, and the numbers of the messages that it is true of. */
  private record Row(String selector, int... numbers) {}

  private static final List<Row> ROWS = List.of(
      new Row("JMSPriority = 7", 1),
      new Row("JMSPriority BETWEEN 3 AND 5", 0, 2, 3),
      new Row("JMSType = 'order'", 0, 2),
      new Row("JMSType <> 'order'", 1),
      new Row("JMSType IS NULL", 3),
      new Row("JMSType LIKE 'q_ot%'", 1),
      new Row("JMSCorrelationID = 'c-2'", 2),
      new Row("JMSDeliveryMode = 'NON_PERSISTENT'", 3),
      new Row("JMSDeliveryMode = 'PERSISTENT' AND JMSPriority > 4", 1),
      new Row("JMSXGroupID = 'g'", 2),
      new Row("JMSMessageID LIKE 'ID:%'", 0, 1, 2, 3),
      new Row("JMSTimestamp > 1000000000000", 0, 1, 2, 3),
      new Row("region = 'eu'", 0, 2),
      new Row("region IN ('eu', 'us')", 0, 1, 2),
      new Row("region NOT IN ('eu')", 1, 3),
      new Row("NOT region = 'eu'", 1, 3),
      new Row("amount > 100", 1, 2),
      new Row("amount * 2 - 1 >= 199 AND amount < 150.5", 2),
      new Row("-amount < -1000", 1),
      new Row("amount IS NOT NULL AND paid", 0),
      new Row("paid = FALSE", 1),
      new Row("paid IS NULL", 2, 3),
      new Row("paid = TRUE OR ratio > 0.4", 0, 3),
      new Row("ratio = 0.5", 3),
      new Row("name LIKE '12%3' OR name LIKE 'a\\_b' ESCAPE '\\'", 0, 1),
      new Row("name = 'it''s'", 2),
      new Row("nothing = 'x' OR nothing <> 'x'"),
      new Row("nothing IS NULL AND (region = 'us' OR region = 'apac')", 1, 3),
      new Row("region = 'eu' and amount between 5 and 6 or JMSPriority > 6", 0, 1));

  private interface OnQueue {
    void run(Session session, Queue queue) throws Exception;
  }

  /** A case with a session and a queue of each type. */
  private static Bench.Act with(Management.QueueType type, OnQueue act) {
    return Java10.with(type, (declaring, name) -> {
      String uri = "amqp://" + Bench.uri.getHost() + ":" + Bench.port() + "?jms.prefetchPolicy.all=100";
      JmsConnectionFactory factory = new JmsConnectionFactory(Bench.user(), Bench.password(), uri);
      try (jakarta.jms.Connection connection = factory.createConnection()) {
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        act.run(session, session.createQueue("/queues/" + name));
      }
    });
  }

  private static void fill(Session session, Queue queue) throws JMSException {
    MessageProducer producer = session.createProducer(queue);
    for (int number = 0; number < 4; number += 1) {
      TextMessage message = session.createTextMessage(Integer.toString(number));
      int mode = DeliveryMode.PERSISTENT;
      int priority = 4;
      switch (number) {
        case 0 -> {
          message.setJMSType("order");
          message.setStringProperty("region", "eu");
          message.setIntProperty("amount", 5);
          message.setBooleanProperty("paid", true);
          message.setStringProperty("name", "12993");
        }
        case 1 -> {
          message.setJMSType("quote");
          message.setStringProperty("region", "us");
          message.setLongProperty("amount", 5000);
          message.setBooleanProperty("paid", false);
          message.setStringProperty("name", "a_b");
          priority = 7;
        }
        case 2 -> {
          message.setJMSType("order");
          message.setJMSCorrelationID("c-2");
          message.setStringProperty("JMSXGroupID", "g");
          message.setStringProperty("region", "eu");
          message.setShortProperty("amount", (short) 120);
          message.setStringProperty("name", "it's");
        }
        default -> {
          message.setStringProperty("region", "apac");
          message.setDoubleProperty("ratio", 0.5);
          mode = DeliveryMode.NON_PERSISTENT;
        }
      }
      producer.send(message, mode, priority, 0);
    }
    producer.close();
  }

  private static int number(Message message) throws JMSException {
    return Integer.parseInt(((TextMessage) message).getText());
  }

  private static List<Integer> numbers(int... numbers) {
    List<Integer> all = new ArrayList<>();
    for (int number : numbers) {
      all.add(number);
    }
    return all;
  }

  /** What a consumer with this selector receives. */
  private static List<Integer> received(Session session, Queue queue, String selector, int count) throws JMSException {
    MessageConsumer consumer = session.createConsumer(queue, selector);
    List<Integer> seen = new ArrayList<>();
    for (Message message = consumer.receive(count > 0 ? WAIT_MS : NOTHING_MS); message != null;
        message = consumer.receive(seen.size() < count ? WAIT_MS : NOTHING_MS)) {
      seen.add(number(message));
    }
    consumer.close();
    return seen;
  }

  private static void selectors(Session session, Queue queue) throws Exception {
    for (Row row : ROWS) {
      fill(session, queue);
      List<Integer> seen = received(session, queue, row.selector, row.numbers.length);
      // Quorum queues give those of a higher priority first.
      Collections.sort(seen);
      Bench.equal(seen, numbers(row.numbers), row.selector);
      Bench.equal(received(session, queue, null, 4 - row.numbers.length).size(), 4 - row.numbers.length, "left by " + row.selector);
    }
  }

  private static void browsers(Session session, Queue queue) throws Exception {
    fill(session, queue);
    for (String selector : List.of("region = 'eu'", "JMSPriority > 5", "region = 'none'")) {
      List<Integer> seen = new ArrayList<>();
      try (QueueBrowser browser = session.createBrowser(queue, selector)) {
        for (Object message : Collections.list(browser.getEnumeration())) {
          seen.add(number((Message) message));
        }
      }
      List<Integer> expected = selector.startsWith("region = 'eu'") ? numbers(0, 2) : selector.startsWith("JMS") ? numbers(1) : numbers();
      Bench.equal(seen, expected, selector);
    }
    Bench.equal(received(session, queue, null, 4).size(), 4, "all are there");
  }

  private static void noWait(Session session, Queue queue) throws Exception {
    fill(session, queue);
    MessageConsumer consumer = session.createConsumer(queue, "amount > 100");
    List<Integer> seen = new ArrayList<>();
    for (Message message = consumer.receiveNoWait(); message != null; message = consumer.receiveNoWait()) {
      seen.add(number(message));
    }
    Bench.equal(seen, numbers(1, 2), "without waiting");
  }

  private static void sideBySide(Session session, Queue queue) throws Exception {
    MessageConsumer orders = session.createConsumer(queue, "JMSType = 'order'");
    MessageConsumer others = session.createConsumer(queue, "JMSType <> 'order' OR JMSType IS NULL");
    fill(session, queue);
    Bench.equal(numbers(number(orders.receive(WAIT_MS)), number(orders.receive(WAIT_MS))), numbers(0, 2), "orders");
    Bench.equal(numbers(number(others.receive(WAIT_MS)), number(others.receive(WAIT_MS))), numbers(1, 3), "others");
    Bench.equal(orders.receive(NOTHING_MS) == null && others.receive(NOTHING_MS) == null, true, "and no more");
  }

  private static void faulty(Session session, Queue queue) throws Exception {
    fill(session, queue);
    try {
      session.createConsumer(queue, "region = ");
      throw new AssertionError("not refused");
    } catch (JMSException refused) {
      Bench.equal(refused.getMessage() != null, true, "it says why");
    }
    Bench.equal(received(session, queue, null, 4).size(), 4, "all are there");
  }

  private static void each(String name, String behaviour, String answer, OnQueue act) {
    BENCH.add(name + ".classic", behaviour + ", classic queue", answer, with(CLASSIC, act));
    BENCH.add(name + ".quorum", behaviour + ", quorum queue", answer, with(QUORUM, act));
  }

  public static void main(String[] words) {
    each("selectors", ROWS.size() + " selectors on four messages, those that are left behind each",
        "ours alone: each consumer receives those of which its selector is true", QpidJms::selectors);
    each("browsers", "browsers with selectors", "ours alone: they see those of which their selector is true, and take none", QpidJms::browsers);
    each("no-wait", "a consumer with a selector receives without waiting", "ours alone: its own, and then none", QpidJms::noWait);
    each("side-by-side", "two consumers with selectors on one session", "ours alone: each receives its own", QpidJms::sideBySide);
    each("faulty", "a selector that cannot be read", "ours alone: the client is told, and nothing is taken", QpidJms::faulty);
    BENCH.run(words);
  }
}
