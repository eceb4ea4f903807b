import com.rabbitmq.client.AMQP.BasicProperties;
import com.rabbitmq.client.Channel;
import com.rabbitmq.client.Connection;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** Asks a server for the squares of numbers; answers come back by direct reply-to, without a queue for them. */
final class Rpc {
  static final String URL = System.getenv().getOrDefault("AMQP_URL", "amqp://guest:guest@localhost:5672/%2f");
  static final String QUEUE = "example-squares";
  static final String REPLIES = "amq.rabbitmq.reply-to";

  public static void main(String[] arguments) throws Exception {
    ConnectionFactory factory = new ConnectionFactory();
    factory.setUri(URL);
    try (Connection connection = factory.newConnection()) {
      // The server, which would be another program.
      Channel server = connection.createChannel();
      server.queueDeclare(QUEUE, true, false, false, null);
      server.basicConsume(QUEUE, false, (tag, question) -> {
        int number = Integer.parseInt(new String(question.getBody()));
        String id = question.getProperties().getCorrelationId();
        BasicProperties about = new BasicProperties.Builder().correlationId(id).build();
        server.basicPublish("", question.getProperties().getReplyTo(), about, Integer.toString(number * number).getBytes());
        server.basicAck(question.getEnvelope().getDeliveryTag(), false);
      }, tag -> { });

      // The client. It consumes from the pseudo-queue first, without acknowledgements, and asks on the same channel.
      Channel client = connection.createChannel();
      BlockingQueue<Delivery> answers = new LinkedBlockingQueue<>();
      client.basicConsume(REPLIES, true, (tag, answer) -> answers.add(answer), tag -> { });
      for (int number : new int[] {3, 12}) {
        System.out.println("asked: the square of " + number);
        // The id tells which answer belongs to which question.
        String id = UUID.randomUUID().toString();
        BasicProperties about = new BasicProperties.Builder().replyTo(REPLIES).correlationId(id).build();
        client.basicPublish("", QUEUE, about, Integer.toString(number).getBytes());
        Delivery answer = next(answers);
        if (!id.equals(answer.getProperties().getCorrelationId())) {
          throw new IllegalStateException("an answer to another question");
        }
        System.out.println("answered: " + new String(answer.getBody()));
      }
      client.queueDelete(QUEUE);
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
