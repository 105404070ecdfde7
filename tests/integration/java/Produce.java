import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Plays with a long key, as KafkaAvroSerializer writes them, and clicks with a long value, as LongSerializer does. */
public class Produce {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> configuration = Map.of("bootstrap.servers", arguments[0]);
        int schema = Integer.parseInt(arguments[2]);
        long count = Long.parseLong(arguments[4]);
        try (var plays = new KafkaProducer<>(configuration, new LongSerializer(), new ByteArraySerializer())) {
            for (long user = 0; user < count; user++) {
                var value = new ByteArrayOutputStream();
                value.write(ByteBuffer.allocate(5).put((byte) 0).putInt(schema).array());
                for (long member : new long[] {user, user % 7, user % 11, user % 13, 1_750_000_000_000L + user}) {
                    zigzag(value, member);
                }
                plays.send(new ProducerRecord<>(arguments[1], user, value.toByteArray()));
            }
        }
        try (var clicks = new KafkaProducer<>(configuration, new StringSerializer(), new LongSerializer())) {
            for (long user = 0; user < count; user++) {
                clicks.send(new ProducerRecord<>(arguments[3], "user-" + user, user));
            }
        }
    }

    private static void zigzag(ByteArrayOutputStream out, long number) {
        long rest = (number << 1) ^ (number >> 63);
        for (; (rest & ~0x7FL) != 0; rest >>>= 7) {
            out.write((int) ((rest & 0x7F) | 0x80));
        }
        out.write((int) rest);
    }
}
