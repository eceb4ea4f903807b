import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Sends messages to queues by patterns of their routing keys. */
final class Topics {
  static final String URL = System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f");
  static final String EXCHANGE = "example-topics";

  public static void main(String[] arguments) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(URL);
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      channel.exchangeDeclare(EXCHANGE, BuiltinExchangeType.TOPIC, true);

      // A routing key is words with dots between them. `*` stands for one word, `#` for any number of words.
      BlockingQueue<Delivery> orders = subscribe(channel, "orders.#");
      BlockingQueue<Delivery> europe = subscribe(channel, "*.eu.*");

      for (String key : List.of("orders.eu.paid", "orders.us.cancelled", "invoices.eu.sent")) {
        channel.basicPublish(EXCHANGE, key, null, new byte[0]);
        System.out.println("published: " + key);
      }

      for (int number = 0; number < 2; number += 1) {
        System.out.println("received by orders.#: " + next(orders).getEnvelope().getRoutingKey());
      }
      for (int number = 0; number < 2; number += 1) {
        System.out.println("received by *.eu.*: " + next(europe).getEnvelope().getRoutingKey());
      }
      channel.exchangeDelete(EXCHANGE);
    }
  }

  static BlockingQueue<Delivery> subscribe(Channel channel, String pattern) throws Exception {
    String queue = channel.queueDeclare("", false, true, false, null).getQueue();
    channel.queueBind(queue, EXCHANGE, pattern);
    BlockingQueue<Delivery> inbox = new LinkedBlockingQueue<>();
    channel.basicConsume(queue, true, (tag, delivery) -> inbox.add(delivery), tag -> { });
    return inbox;
  }

  static Delivery next(BlockingQueue<Delivery> inbox) throws InterruptedException {
    Delivery delivery = inbox.poll(10, TimeUnit.SECONDS);
    if (delivery == null) {
      throw new IllegalStateException("no message within 10 seconds");
    }
    return delivery;
  }
}
