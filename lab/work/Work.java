// Work FILES... - a Java program that also asks malloc for memory: direct buffers, compression, many threads
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

public class Work {
  static String hash(byte[] data) throws Exception {
    return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(data));
  }

  static byte[] squeezeAndBack(byte[] data, int level) throws Exception {
    Deflater deflater = new Deflater(level);
    deflater.setInput(data);
    deflater.finish();
    byte[] squeezed = new byte[data.length + 1000];
    int length = deflater.deflate(squeezed);
    deflater.end();
    Inflater inflater = new Inflater();
    inflater.setInput(squeezed, 0, length);
    byte[] back = new byte[data.length];
    int filled = inflater.inflate(back);
    inflater.end();
    if (filled != data.length) throw new IllegalStateException("lost " + (data.length - filled) + " bytes");
    return back;
  }

  static long directBuffers(int seed) {
    long sum = 0;
    for (int i = 0; i < 400; i++) {
      ByteBuffer buffer = ByteBuffer.allocateDirect(1000 + (i * seed * 37) % 60000);
      while (buffer.remaining() >= 8) buffer.putLong(i * 31L + buffer.position());
      buffer.flip();
      while (buffer.remaining() >= 8) sum += buffer.getLong();
    }
    return sum;
  }

  public static void main(String[] paths) throws Exception {
    StringBuilder all = new StringBuilder();
    for (String path : paths) all.append(Files.readString(Path.of(path)));
    String text = all.toString();
    Map<String, Long> words = Pattern.compile("[A-Za-z_]\\w*").matcher(text).results()
        .collect(Collectors.groupingBy(r -> r.group(), TreeMap::new, Collectors.counting()));
    words.entrySet().stream()
        .sorted(Map.Entry.<String, Long>comparingByValue(Comparator.reverseOrder()).thenComparing(Map.Entry.comparingByKey()))
        .limit(15).forEach(e -> System.out.printf("%8d %s%n", e.getValue(), e.getKey()));

    byte[] data = text.getBytes(StandardCharsets.UTF_8);
    ExecutorService pool = Executors.newFixedThreadPool(8);
    List<Callable<String>> tasks = new ArrayList<>();
    for (int n = 1; n <= 24; n++) {
      int seed = n;
      tasks.add(() -> directBuffers(seed) + " " + hash(squeezeAndBack(data, 1 + seed % 9)));
    }
    for (Future<String> result : pool.invokeAll(tasks)) System.out.println(result.get());
    pool.shutdown();

    int count = 0;
    for (int i = 0; i < 300; i++) {
      Thread thread = new Thread(() -> directBuffers(3));
      thread.start();
      if (i % 10 == 0) thread.join();
      count++;
    }
    System.out.println("threads: " + count);
  }
}
