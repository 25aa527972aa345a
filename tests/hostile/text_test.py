"""Text and numbers that mislead those who read them. text_test.py CALIBD"""
import re

from hostile_case import (CALL_SECONDS, GET_MODEL, OBSERVE, HostileCase, calibration_service_pb2,
                          calibration_service_pb2_grpc, grpc, ingest_service_pb2,
                          ingest_service_pb2_grpc, main, monitoring_pb2)
from http2_peer import Peer

MISLEADING = [*map(chr, range(0x00, 0x20)), *map(chr, range(0x7f, 0xa0)), "\u061c", "\u200e",
              "\u200f", *map(chr, range(0x2028, 0x202f)), *map(chr, range(0x2066, 0x206a))]
ORDINARY = ["north", "Zürich", "東京", "Ελλάδα", "שלום", "हिन्दी", "a b", "🦊", "50 %"]


class Case(HostileCase):
    def observe(self, values, **observations):
        """The error of a batch of one row; None when it is counted."""
        try:
            ingest_service_pb2_grpc.IngestServiceStub(self.observing).Observe(
                ingest_service_pb2.ObserveRequest(
                    model="models/m", observations=ingest_service_pb2.Observations(
                        labels=[0], **values, **observations)), timeout=CALL_SECONDS)
            return None
        except grpc.RpcError as error:
            self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT, error.details())
            return error.details()

    def setUp(self):
        super().setUp()
        self.observing = self.channel()


def probabilities(*values):
    return {"probabilities": ingest_service_pb2.DoubleValues(values=values)}


class TextTest(Case):
    def test_that_misleads_is_no_group(self):
        self.create_model(class_count=2,
                          monitoring=monitoring_pb2.Monitoring(group_tag="region"))
        row = probabilities(0.5, 0.5)
        for character in MISLEADING:
            with self.subTest(character=f"U+{ord(character):04X}"):
                error = self.observe(row, group_values=[f"nor{character}th"])
                self.assertIsNotNone(error, "is accepted")
                self.assertNotIn(character, error)
        for value in ORDINARY:
            with self.subTest(value=value):
                self.assertIsNone(self.observe(row, group_values=[value]))

    def test_that_misleads_is_no_class_name_and_no_note(self):
        self.create_model()
        calibration = calibration_service_pb2_grpc.CalibrationServiceStub(self.channel())
        for character in ("\x85", "\u202e", "\u2028", "\u2066"):
            with self.subTest(character=f"U+{ord(character):04X}"):
                with self.assertRaises(grpc.RpcError) as caught:
                    self.create_model("models/n", class_count=2,
                                      class_names=["cat", f"d{character}og"])
                self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
                with self.assertRaises(grpc.RpcError) as caught:
                    calibration.AcknowledgeAlarm(calibration_service_pb2.AcknowledgeAlarmRequest(
                        model="models/m", alarm_id=1, note=f"a{character}b"), timeout=CALL_SECONDS)
                self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

    def test_that_is_no_utf8_is_not_printed(self):
        before = len(self.server.log())
        with Peer(self.server.grpc) as peer:
            for _ in range(500):
                self.assertIsNotNone(peer.call(GET_MODEL, b"\x0a\x03a\xffb"))
                self.assertIsNotNone(peer.call(OBSERVE, b"\x0a\x03a\xffb"))
        printed = self.server.log()[before:]
        self.assertLess(len(printed.splitlines()), 10, printed[:2000])
        self.assertNotIn("libprotobuf", printed)


class NumberTest(Case):
    def setUp(self):
        super().setUp()
        self.create_model(class_count=2)

    def test_in_an_error_is_the_one_that_was_sent(self):
        for value in (1 + 2**-19, 1 + 1.0000001e-6, -1.0000001e-6, -2**-19, 1.5):
            for row, column in ((probabilities(value, 0.0), 0), (probabilities(0.0, value), 1)):
                with self.subTest(value=value, column=column):
                    error = self.observe(row)
                    self.assertIsNotNone(error)
                    self.assertEqual(float(re.search(r"is (-?[0-9.e+-]+),", error)[1]), value)

    def test_of_single_precision_is_too(self):
        for value, text in ((1 + 2**-19, "1.0000019"), (-2**-19, "-1.9073486e-06")):
            error = self.observe({"probabilities_float32": ingest_service_pb2.FloatValues(
                values=[value, 0.0])})
            self.assertIsNotNone(error)
            number = float(re.search(r"is (-?[0-9.e+-]+),", error)[1])
            self.assertTrue(number in (value, float(text)), error)

    def test_a_rounding_away_from_a_probability_is_counted(self):
        for value in (1 + 2**-52, 1 + 2**-23, 1 + 1e-6):
            for row in (probabilities(value, 0.0), probabilities(-5e-324, value),
                        probabilities(1.0, -1e-6)):
                self.assertIsNone(self.observe(row), (value, row))

    def test_a_sum_in_an_error_is_outside_of_what_is_expected(self):
        # A ten-thousandth of the tolerance is allowed for the rounding of single-precision values.
        sums = (1 + 1.000101e-3, 1 - 1.000101e-3, 1.00100011)
        for total in sums:
            with self.subTest(sum=total):
                error = self.observe(probabilities(0.5, total - 0.5))
                self.assertIsNotNone(error)
                shown = float(re.search(r"sums? to (-?[0-9.e+-]+)", error)[1].rstrip(".,"))
                self.assertGreater(abs(shown - 1), 1e-3, error)


if __name__ == "__main__":
    main()
