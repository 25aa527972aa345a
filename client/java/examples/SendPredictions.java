import calibd.v1.BandwidthRule;
import calibd.v1.Classes;
import calibd.v1.BlockEstimate;
import calibd.v1.CalibrationServiceGrpc;
import calibd.v1.CreateModelRequest;
import calibd.v1.DoubleValues;
import calibd.v1.GetCalibrationRequest;
import calibd.v1.IngestServiceGrpc;
import calibd.v1.Model;
import calibd.v1.ModelServiceGrpc;
import calibd.v1.Observations;
import calibd.v1.ObserveRequest;
import calibd.v1.ObserveResponse;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.StatusRuntimeException;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Declares a model, sends labelled predictions and reads the running estimate.
 *
 * <pre>SendPredictions [HOST:PORT]</pre>
 */
public final class SendPredictions {
  /** Four predictions, one row each: the probabilities of the three classes. */
  private static final List<Double> PREDICTIONS =
      List.of(
          0.7, 0.2, 0.1,
          0.1, 0.8, 0.1,
          0.3, 0.3, 0.4,
          0.9, 0.1, 0.0);

  /** The true classes, counted from 0. */
  private static final List<Integer> LABELS = List.of(0, 1, 0, 0);

  private static void sendPredictions(ManagedChannel channel) {
    Model model =
        Model.newBuilder()
            .setName("models/weather-java")
            .setClasses(
                Classes.newBuilder()
                    .setCount(3)
                    // Without a rule, the bandwidth is chosen from the first 500 predictions.
                    .setBandwidth(BandwidthRule.newBuilder().setFixed(0.2)))
            .build();
    ModelServiceGrpc.newBlockingStub(channel)
        .withDeadlineAfter(10, TimeUnit.SECONDS)
        .createModel(CreateModelRequest.newBuilder().setModel(model).build());

    ObserveResponse answer =
        IngestServiceGrpc.newBlockingStub(channel)
            .withDeadlineAfter(10, TimeUnit.SECONDS)
            .observe(
                ObserveRequest.newBuilder()
                    .setModel(model.getName())
                    .setObservations(
                        Observations.newBuilder()
                            .setProbabilities(DoubleValues.newBuilder().addAllValues(PREDICTIONS))
                            .addAllLabels(LABELS))
                    // Number the batches 1, 2, 3, ...: a repeated call is then counted once.
                    .setProducer(
                        ObserveRequest.Producer.newBuilder()
                            .setProducerId("weather-station")
                            .setSequence(1))
                    .build());
    System.out.printf(
        "accepted rows: %d, counted before: %d%n",
        answer.getAcceptedRows(), answer.getDuplicateRows());

    for (BlockEstimate estimate :
        CalibrationServiceGrpc.newBlockingStub(channel)
            .withDeadlineAfter(10, TimeUnit.SECONDS)
            .getCalibration(GetCalibrationRequest.newBuilder().setModel(model.getName()).build())
            .getEstimatesList()) {
      if (estimate.hasSkce()) {
        System.out.printf(
            "SKCE (blocks of %d): %s%n", estimate.getBlockSize(), estimate.getSkce());
      }
    }
  }

  public static void main(String[] arguments) {
    String address = arguments.length > 0 ? arguments[0] : "127.0.0.1:8460";
    ManagedChannel channel = ManagedChannelBuilder.forTarget(address).usePlaintext().build();
    try {
      sendPredictions(channel);
    } catch (StatusRuntimeException error) {
      System.err.println(error.getMessage());
      System.exit(1);
    } finally {
      channel.shutdownNow();
    }
  }
}
