import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Sends messages that are delivered some time later. */
final class Delayed {
  static final String URL = System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f");
  static final String EXCHANGE = "example-delays";
  static final String QUEUE = "example-kitchen";

  public static void main(String[] arguments) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(URL);
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      // The argument is the type that the exchange has otherwise: it decides which queues a message goes to.
      channel.exchangeDeclare(EXCHANGE, "x-delayed-message", true, false, Map.of("x-delayed-type", "direct"));
      channel.queueDeclare(QUEUE, true, false, false, null);
      channel.queueBind(QUEUE, EXCHANGE, "kitchen");

      send(channel, "coffee", 750);
      send(channel, "tea", 1500);
      send(channel, "water", 0);

      BlockingQueue<Delivery> inbox = new LinkedBlockingQueue<>();
      channel.basicConsume(QUEUE, true, (tag, delivery) -> inbox.add(delivery), tag -> { });
      for (int received = 0; received < 3; received += 1) {
        System.out.println("received: " + new String(next(inbox).getBody()));
      }
      channel.queueDelete(QUEUE);
      channel.exchangeDelete(EXCHANGE);
    }
  }

  static void send(Channel channel, String drink, int delayMs) throws Exception {
    BasicProperties about = new BasicProperties.Builder().headers(Map.of("x-delay", delayMs)).build();
    channel.basicPublish(EXCHANGE, "kitchen", about, drink.getBytes());
    System.out.println("sent: " + drink + ", due in " + delayMs + " ms");
  }

  static Delivery next(BlockingQueue<Delivery> inbox) throws InterruptedException {
    Delivery delivery = inbox.poll(10, TimeUnit.SECONDS);
    if (delivery == null) {
      throw new IllegalStateException("no message within 10 seconds");
    }
    return delivery;
  }
}
