import java.io.PrintStream;
import java.net.Socket;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * The frame of the suites in Java: named cases, one JSON result a line, as lab/cases.py has it.
 *
 * <p>Invariant: every case that was selected yields one result, also when it hangs: it is left behind.
 */
final class Bench {
  static final long WAIT_MS = 15_000;
  static final long QUIET_MS = 250;
  private static final long CASE_MS = 50_000;
  private static final AtomicInteger NUMBERS = new AtomicInteger();

  static URI uri = URI.create("amqp://guest:guest@127.0.0.1:5672");
  static int streamPort = 5552;
  static int relayPort;
  private static int cutPort;
  private static String only = "*";
  private static boolean later;

  private final String suite;
  private final List<Case> cases = new ArrayList<>();

  interface Act {
    void run() throws Exception;
  }

  interface Check {
    boolean holds() throws Exception;
  }

  private record Case(String name, String behaviour, String answer, boolean later, Act act) {}

  Bench(String suite) {
    this.suite = suite;
  }

  void add(String name, String behaviour, String answer, Act act) {
    cases.add(new Case(suite + "." + name, behaviour, answer, false, act));
  }

  /** On the road map and not due: runs with `--later` alone. */
  void addLater(String name, String behaviour, String answer, Act act) {
    cases.add(new Case(suite + "." + name, behaviour, answer, true, act));
  }

  void run(String[] words) {
    PrintStream results = System.out;
    System.setOut(System.err);
    parse(words);
    String pattern = "\\Q" + only.replace("*", "\\E.*\\Q").replace("?", "\\E.\\Q") + "\\E";
    ExecutorService threads = Executors.newCachedThreadPool(act -> {
      Thread thread = new Thread(act, "case");
      thread.setDaemon(true);
      return thread;
    });
    boolean failed = false;
    for (Case one : cases) {
      if (!one.name.matches(pattern) || one.later && !later) {
        continue;
      }
      long begin = System.nanoTime();
      String why = "";
      Future<?> running = threads.submit(() -> {
        one.act.run();
        return null;
      });
      try {
        running.get(CASE_MS, TimeUnit.MILLISECONDS);
      } catch (TimeoutException late) {
        running.cancel(true);
        why = "no end after " + CASE_MS + " ms";
      } catch (Exception error) {
        why = described(error.getCause() == null ? error : error.getCause());
      }
      failed |= !why.isEmpty();
      results.printf("{\"name\": %s, \"status\": %s, \"why\": %s, \"behaviour\": %s, \"answer\": %s, \"seconds\": %d.%03d}%n",
          quoted(one.name), quoted(why.isEmpty() ? "ok" : "failed"), quoted(why), quoted(one.behaviour), quoted(one.answer),
          (System.nanoTime() - begin) / 1_000_000_000, (System.nanoTime() - begin) / 1_000_000 % 1000);
    }
    results.flush();
    System.exit(failed ? 1 : 0);
  }

  private static void parse(String[] words) {
    for (int at = 0; at < words.length; at += 1) {
      switch (words[at]) {
        case "--uri" -> uri = URI.create(words[++at]);
        case "--only" -> only = words[++at];
        case "--later" -> later = true;
        case "--stream-port" -> streamPort = Integer.parseInt(words[++at]);
        case "--relay" -> relayPort = Integer.parseInt(words[++at]);
        case "--cut" -> cutPort = Integer.parseInt(words[++at]);
        case "--full" -> { } // there is one form
        case "--seed", "--admin" -> at += 1; // nothing is random; for other suites
        default -> throw new IllegalArgumentException("unknown option " + words[at]);
      }
    }
  }

  private static String described(Throwable error) {
    String place = "";
    for (StackTraceElement frame : error.getStackTrace()) {
      if (frame.getClassName().startsWith("Java")) {
        place = " (" + frame.getFileName() + ":" + frame.getLineNumber() + ")";
        break;
      }
    }
    String text = error.toString() + (error.getCause() == null ? "" : " from " + error.getCause());
    return text.substring(0, Math.min(500, text.length())) + place;
  }

  private static String quoted(String text) {
    StringBuilder out = new StringBuilder("\"");
    for (char letter : text.toCharArray()) {
      if (letter == '"' || letter == '\\') {
        out.append('\\').append(letter);
      } else if (letter < ' ') {
        out.append(' ');
      } else {
        out.append(letter);
      }
    }
    return out.append('"').toString();
  }

  static String fresh(String word) {
    return "foreign.java." + word + "." + Long.toHexString(ProcessHandle.current().pid()) + "." + NUMBERS.incrementAndGet();
  }

  static String user() {
    return uri.getUserInfo().split(":")[0];
  }

  static String password() {
    return uri.getUserInfo().split(":")[1];
  }

  static int port() {
    return uri.getPort() < 0 ? 5672 : uri.getPort();
  }

  /** Resets all connections through the relay. */
  static void cut() throws Exception {
    try (Socket knock = new Socket("127.0.0.1", cutPort)) {
      knock.getInputStream().read();
    }
  }

  static void equal(Object seen, Object expected, String what) {
    if (!Objects.equals(seen, expected)) {
      throw new AssertionError(what + ": saw " + seen + ", expected " + expected);
    }
  }

  static void eventually(Check check, String what) throws Exception {
    long deadline = System.nanoTime() + WAIT_MS * 1_000_000;
    while (!check.holds()) {
      if (System.nanoTime() > deadline) {
        throw new AssertionError(what + ": not so after " + WAIT_MS + " ms");
      }
      Thread.sleep(20);
    }
  }

  /** What comes in; `take` waits for some of it. */
  static final class Inbox<T> {
    private final BlockingQueue<T> items = new LinkedBlockingQueue<>();

    void put(T item) {
      items.add(item);
    }

    T take(String what) throws InterruptedException {
      T item = items.poll(WAIT_MS, TimeUnit.MILLISECONDS);
      if (item == null) {
        throw new AssertionError("no " + what + " after " + WAIT_MS + " ms");
      }
      return item;
    }

    List<T> take(int count, String what) throws InterruptedException {
      List<T> taken = new ArrayList<>();
      while (taken.size() < count) {
        taken.add(take(what + " " + (taken.size() + 1) + " of " + count));
      }
      return taken;
    }

    void quiet(String what) throws InterruptedException {
      T item = items.poll(QUIET_MS, TimeUnit.MILLISECONDS);
      equal(item, null, what);
    }
  }
}
