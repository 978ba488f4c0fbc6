import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/** Prints what Kafka Connect's own classes make of records: a JSON object of one record a line, in and out. */
public final class ConnectTransforms {
    private static final ObjectMapper MAPPER = new ObjectMapper();
    private static final SimpleHeaderConverter HEADERS = new SimpleHeaderConverter();

    public static void main(String[] arguments) throws Exception {
        PrintStream output = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        HEADERS.configure(Map.of("converter.type", "header"));
        Map<String, Transformation<SinkRecord>> made = new HashMap<>();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            ObjectNode answer = MAPPER.createObjectNode();
            try {
                apply(MAPPER.readTree(line), made, answer);
            } catch (Exception error) {
                answer.removeAll();
                answer.put("error", String.valueOf(error));
            }
            output.println(MAPPER.writeValueAsString(answer));
        }
        output.flush();
    }

    private static void apply(JsonNode asked, Map<String, Transformation<SinkRecord>> made, ObjectNode answer)
            throws Exception {
        JsonConverter keys = converter(asked, true);
        JsonConverter values = converter(asked, false);
        String topic = asked.get("topic").asText();
        SchemaAndValue key = keys.toConnectData(topic, bytes(asked.get("key")));
        SchemaAndValue value = values.toConnectData(topic, bytes(asked.get("value")));
        SinkRecord record = new SinkRecord(topic, 3, key.schema(), key.value(), value.schema(), value.value(),
                10, 1577836800000L, TimestampType.CREATE_TIME);
        for (JsonNode header : asked.get("headers")) {
            SchemaAndValue read = HEADERS.toConnectHeader(topic, header.get(0).asText(), bytes(header.get(1)));
            record.headers().add(header.get(0).asText(), read);
        }
        for (JsonNode step : asked.get("steps")) {
            if (isChosen(step, asked.get("predicates"), record)) {
                record = transformation(step, made).apply(record);
            }
            if (record == null) {
                answer.put("dropped", true);
                return;
            }
        }
        answer.put("topic", record.topic());
        put(answer, "key", keys.fromConnectData(topic, record.keySchema(), record.key()));
        put(answer, "value", values.fromConnectData(topic, record.valueSchema(), record.value()));
        ArrayNode headers = answer.putArray("headers");
        for (Header header : record.headers()) {
            ArrayNode pair = headers.addArray().add(header.key());
            byte[] text = HEADERS.fromConnectHeader(topic, header.key(), header.schema(), header.value());
            pair.add(text == null ? null : new String(text, StandardCharsets.UTF_8));
        }
    }

    /** Whether the step applies, as Connect's own runtime has it. */
    @SuppressWarnings("unchecked")
    private static boolean isChosen(JsonNode step, JsonNode predicates, SinkRecord record) throws Exception {
        if (!step.has("predicate")) {
            return true;
        }
        Map<String, String> options =
                MAPPER.convertValue(predicates.get(step.get("predicate").asText()), Map.class);
        Class<?> type = Class.forName(options.remove("type"));
        try (Predicate<SinkRecord> predicate =
                (Predicate<SinkRecord>) type.getDeclaredConstructor().newInstance()) {
            predicate.configure(options);
            return predicate.test(record) != step.path("negate").asBoolean();
        }
    }

    @SuppressWarnings("unchecked")
    private static Transformation<SinkRecord> transformation(
            JsonNode step, Map<String, Transformation<SinkRecord>> made) throws Exception {
        String text = step.toString();
        if (!made.containsKey(text)) {
            Map<String, String> options = MAPPER.convertValue(step, Map.class);
            options.keySet().removeAll(Set.of("predicate", "negate"));
            Class<?> type = Class.forName(options.remove("type"));
            Transformation<SinkRecord> transformation =
                    (Transformation<SinkRecord>) type.getDeclaredConstructor().newInstance();
            transformation.configure(options);
            made.put(text, transformation);
        }
        return made.get(text);
    }

    private static JsonConverter converter(JsonNode asked, boolean isKey) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", asked.get("schemas").asText()), isKey);
        return converter;
    }

    private static byte[] bytes(JsonNode text) {
        return text == null || text.isNull() ? null : text.asText().getBytes(StandardCharsets.UTF_8);
    }

    private static void put(ObjectNode answer, String name, byte[] json) throws Exception {
        answer.set(name, json == null ? null : MAPPER.readTree(json));
    }
}
