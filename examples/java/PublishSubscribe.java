import com.rabbitmq.client.BuiltinExchangeType;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Publishes news to every subscriber through a fanout exchange. */
final class PublishSubscribe {
  static final String URL = System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f");
  static final String EXCHANGE = "example-news";

  public static void main(String[] arguments) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(URL);
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      channel.exchangeDeclare(EXCHANGE, BuiltinExchangeType.FANOUT, true);

      BlockingQueue<Delivery> first = subscribe(channel);
      BlockingQueue<Delivery> second = subscribe(channel);

      for (String news : List.of("rain on Saturday", "sun on Sunday")) {
        channel.basicPublish(EXCHANGE, "", null, news.getBytes());
        System.out.println("published: " + news);
      }

      for (int number = 0; number < 2; number += 1) {
        System.out.println("first subscriber: " + new String(next(first).getBody()));
      }
      for (int number = 0; number < 2; number += 1) {
        System.out.println("second subscriber: " + new String(next(second).getBody()));
      }
      channel.exchangeDelete(EXCHANGE);
    }
  }

  /** A queue for each subscriber. An exclusive queue goes with its connection; the broker makes up its name. */
  static BlockingQueue<Delivery> subscribe(Channel channel) throws Exception {
    String queue = channel.queueDeclare("", false, true, false, null).getQueue();
    channel.queueBind(queue, EXCHANGE, "");
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
