import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Appends events to a stream and reads them from the third one on. Reading takes nothing away from a stream. */
final class Stream {
  static final String URL = System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f");
  static final String STREAM = "example-events";

  public static void main(String[] arguments) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(URL);
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      channel.confirmSelect();
      channel.queueDeclare(STREAM, true, false, false, Map.of("x-queue-type", "stream", "x-max-age", "1D"));

      for (int number = 0; number < 5; number += 1) {
        String event = "event " + number;
        channel.basicPublish("", STREAM, null, event.getBytes());
        channel.waitForConfirmsOrDie(10_000);
        System.out.println("appended: " + event);
      }

      // Offsets count from 0. An offset may also be "first", "last", "next", a timestamp, or an age such as "1h".
      // Readers of streams need a prefetch, and acknowledgements to be given more.
      channel.basicQos(10);
      BlockingQueue<Delivery> inbox = new LinkedBlockingQueue<>();
      Map<String, Object> from = Map.of("x-stream-offset", 2);
      channel.basicConsume(STREAM, false, from, (tag, delivery) -> inbox.add(delivery), tag -> { });
      for (int read = 0; read < 3; read += 1) {
        Delivery event = next(inbox);
        Object offset = event.getProperties().getHeaders().get("x-stream-offset");
        System.out.println("read at offset " + offset + ": " + new String(event.getBody()));
        channel.basicAck(event.getEnvelope().getDeliveryTag(), false);
      }
      channel.queueDelete(STREAM);
    }
  }

  static Delivery next(BlockingQueue<Delivery> inbox) throws InterruptedException {
    Delivery delivery = inbox.poll(10, TimeUnit.SECONDS);
    if (delivery == null) {
      throw new IllegalStateException("no message within 10 seconds");
    }
    return delivery;
  }
}
