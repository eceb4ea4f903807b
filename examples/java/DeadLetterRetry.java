import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.GetResponse;
import com.rabbitmq.client.MessageProperties;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Tries an order three times, with a pause between the attempts, and then puts it aside. */
final class DeadLetterRetry {
  static final String URL = System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f");
  static final String ORDERS = "example-orders";
  static final String WAITING = "example-orders-waiting";
  static final String FAILED = "example-orders-failed";
  static final int ATTEMPTS_MAX = 3;

  public static void main(String[] arguments) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(URL);
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      channel.confirmSelect();
      // A rejected order goes to the queue of those that wait ...
      channel.queueDeclare(ORDERS, true, false, false, Map.of(
          "x-queue-type", "quorum",
          "x-dead-letter-exchange", "",
          "x-dead-letter-routing-key", WAITING));
      // ... where nobody consumes. It expires after 300 ms and goes back.
      channel.queueDeclare(WAITING, true, false, false, Map.of(
          "x-message-ttl", 300,
          "x-dead-letter-exchange", "",
          "x-dead-letter-routing-key", ORDERS));
      channel.queueDeclare(FAILED, true, false, false, null);

      channel.basicPublish("", ORDERS, MessageProperties.PERSISTENT_TEXT_PLAIN, "order 7".getBytes());
      channel.waitForConfirmsOrDie(10_000);
      System.out.println("sent: order 7");

      BlockingQueue<Delivery> inbox = new LinkedBlockingQueue<>();
      channel.basicConsume(ORDERS, false, (tag, delivery) -> inbox.add(delivery), tag -> { });
      boolean isTried = true;
      while (isTried) {
        Delivery order = next(inbox);
        long tag = order.getEnvelope().getDeliveryTag();
        long attempt = attemptsBefore(order) + 1;
        isTried = attempt < ATTEMPTS_MAX;
        if (isTried) {
          System.out.println("attempt " + attempt + " failed: " + new String(order.getBody()));
          channel.basicReject(tag, false);
        } else {
          System.out.println("attempt " + attempt + " failed, given up: " + new String(order.getBody()));
          // The copy is confirmed before the original is acknowledged, so the order is always in one of the queues.
          channel.basicPublish("", FAILED, MessageProperties.PERSISTENT_TEXT_PLAIN, order.getBody());
          channel.waitForConfirmsOrDie(10_000);
          channel.basicAck(tag, false);
        }
      }

      GetResponse failed = channel.basicGet(FAILED, true);
      if (failed == null) {
        throw new IllegalStateException("the order is not among the failed ones");
      }
      System.out.println("put aside: " + new String(failed.getBody()));
      for (String queue : List.of(ORDERS, WAITING, FAILED)) {
        channel.queueDelete(queue);
      }
    }
  }

  /** The broker counts in the header x-death how often a message left each queue. */
  static long attemptsBefore(Delivery order) {
    Map<String, Object> headers = order.getProperties().getHeaders();
    if (headers == null || !(headers.get("x-death") instanceof List<?> deaths)) {
      return 0;
    }
    long attempts = 0;
    for (Object death : deaths) {
      Map<?, ?> entry = (Map<?, ?>) death;
      if (ORDERS.equals(entry.get("queue").toString())) {
        attempts += (Long) entry.get("count");
      }
    }
    return attempts;
  }

  static Delivery next(BlockingQueue<Delivery> inbox) throws InterruptedException {
    Delivery delivery = inbox.poll(10, TimeUnit.SECONDS);
    if (delivery == null) {
      throw new IllegalStateException("no message within 10 seconds");
    }
    return delivery;
  }
}
