// Declares a model, streams labelled predictions to it and reads the running estimate.
//
//	send_predictions [HOST:PORT]
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	calibd "calibd/v1"
)

// Four predictions, one row each: the probabilities of the three classes.
var predictions = []float64{
	0.7, 0.2, 0.1,
	0.1, 0.8, 0.1,
	0.3, 0.3, 0.4,
	0.9, 0.1, 0.0,
}

// The true classes, counted from 0.
var labels = []int32{0, 1, 0, 0}

func createModel(ctx context.Context, connection *grpc.ClientConn) (string, error) {
	model := &calibd.Model{
		Name: "models/weather-go",
		Kind: &calibd.Model_Classes{Classes: &calibd.Classes{
			Count: 3,
			// Without a rule, the bandwidth is chosen from the first 500 predictions.
			Bandwidth: &calibd.BandwidthRule{Rule: &calibd.BandwidthRule_Fixed{Fixed: 0.2}},
		}},
	}
	_, err := calibd.NewModelServiceClient(connection).CreateModel(
		ctx, &calibd.CreateModelRequest{Model: model})
	return model.Name, err
}

// send streams one batch and returns when the server has counted it. The producer id and the number
// of the batch make it safe to repeat: a batch is counted once, however often it is sent.
func send(ctx context.Context, connection *grpc.ClientConn, model string) error {
	stream, err := calibd.NewIngestServiceClient(connection).StreamObservations(ctx)
	if err != nil {
		return err
	}
	const sequence = 1
	for _, request := range []*calibd.StreamObservationsRequest{
		{Message: &calibd.StreamObservationsRequest_Open_{Open: &calibd.StreamObservationsRequest_Open{
			Model: model, ProducerId: "weather-station"}}},
		{Message: &calibd.StreamObservationsRequest_Batch_{Batch: &calibd.StreamObservationsRequest_Batch{
			Sequence: sequence,
			Content: &calibd.StreamObservationsRequest_Batch_Observations{
				Observations: &calibd.Observations{
					Predictions: &calibd.Observations_Probabilities{
						Probabilities: &calibd.DoubleValues{Values: predictions}},
					Labels: labels,
				}}}}},
		{Message: &calibd.StreamObservationsRequest_Finish_{
			Finish: &calibd.StreamObservationsRequest_Finish{LastSequence: sequence}}},
	} {
		// A failed Send returns io.EOF; Recv then returns the reason.
		if stream.Send(request) != nil {
			break
		}
	}
	for {
		response, err := stream.Recv()
		if err != nil {
			return err
		}
		switch message := response.Message.(type) {
		case *calibd.StreamObservationsResponse_Rejected_:
			return fmt.Errorf("batch %d was rejected: %s",
				message.Rejected.Sequence, message.Rejected.Status.Message)
		case *calibd.StreamObservationsResponse_Finished_:
			fmt.Printf("accepted rows: %d, counted before: %d\n",
				message.Finished.AcceptedRows, message.Finished.DuplicateRows)
			return nil
		}
	}
}

func show(ctx context.Context, connection *grpc.ClientConn, model string) error {
	calibration, err := calibd.NewCalibrationServiceClient(connection).GetCalibration(
		ctx, &calibd.GetCalibrationRequest{Model: model})
	if err != nil {
		return err
	}
	for _, estimate := range calibration.Estimates {
		if estimate.Skce != nil {
			fmt.Printf("SKCE (blocks of %d): %g\n", estimate.BlockSize, *estimate.Skce)
		}
	}
	return nil
}

func run(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	connection, err := grpc.DialContext(ctx, address, grpc.WithInsecure())
	if err != nil {
		return err
	}
	defer connection.Close()
	model, err := createModel(ctx, connection)
	if err != nil {
		return err
	}
	if err := send(ctx, connection, model); err != nil {
		return err
	}
	return show(ctx, connection, model)
}

func main() {
	address := "127.0.0.1:8460"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	err := run(address)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	// The details name the invalid fields.
	for _, detail := range status.Convert(err).Details() {
		if request, ok := detail.(*errdetails.BadRequest); ok {
			for _, violation := range request.FieldViolations {
				fmt.Fprintf(os.Stderr, "  %s: %s\n", violation.Field, violation.Description)
			}
		}
	}
	os.Exit(1)
}
