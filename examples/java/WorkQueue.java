import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import com.rabbitmq.client.MessageProperties;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Hands tasks to a worker so that no task is lost when the broker, the publisher or the worker ends. */
final class WorkQueue {
  static final String URL = System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f");
  static final String QUEUE = "example-tasks";

  public static void main(String[] arguments) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(URL);
    try (Connection connection = factory.newConnection()) {
      Channel channel = connection.createChannel();
      // Durable: queue and persistent messages are there after a restart of the broker.
      channel.queueDeclare(QUEUE, true, false, false, Map.of("x-queue-type", "quorum"));

      // Publisher confirms: the wait is over once the task is stored, and fails where it could not be.
      channel.confirmSelect();
      for (int number = 1; number <= 3; number += 1) {
        String task = "task " + number;
        channel.basicPublish("", QUEUE, MessageProperties.PERSISTENT_TEXT_PLAIN, task.getBytes());
        channel.waitForConfirmsOrDie(10_000);
        System.out.println("confirmed: " + task);
      }

      // Prefetch: a worker has one task at a time, so several workers share the work evenly.
      channel.basicQos(1);
      BlockingQueue<Delivery> inbox = new LinkedBlockingQueue<>();
      channel.basicConsume(QUEUE, false, (tag, delivery) -> inbox.add(delivery), tag -> { });
      for (int done = 0; done < 3; done += 1) {
        Delivery task = next(inbox);
        System.out.println("done: " + new String(task.getBody()));
        // After the work, not before: an unacknowledged task goes to another worker when this one ends.
        channel.basicAck(task.getEnvelope().getDeliveryTag(), false);
      }

      System.out.println("left in the queue: " + channel.queueDeclarePassive(QUEUE).getMessageCount());
      channel.queueDelete(QUEUE);
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
