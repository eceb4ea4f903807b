import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Sends a message to a queue and receives it. */
final class Hello {
  static final String URL = System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f");
  static final String QUEUE = "example-hello";

  public static void main(String[] arguments) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(URL);
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      channel.queueDeclare(QUEUE, true, false, false, null);

      // The default exchange has no name. It takes a message to the queue that is named by the routing key.
      channel.basicPublish("", QUEUE, null, "Hello, World!".getBytes());
      System.out.println("sent: Hello, World!");

      BlockingQueue<Delivery> inbox = new LinkedBlockingQueue<>();
      channel.basicConsume(QUEUE, false, (tag, delivery) -> inbox.add(delivery), tag -> { });
      Delivery delivery = inbox.poll(10, TimeUnit.SECONDS);
      if (delivery == null) {
        throw new IllegalStateException("no message within 10 seconds");
      }
      System.out.println("received: " + new String(delivery.getBody()));
      // The broker keeps a message until it is acknowledged.
      channel.basicAck(delivery.getEnvelope().getDeliveryTag(), false);

      channel.queueDelete(QUEUE);
    }
  }
}
