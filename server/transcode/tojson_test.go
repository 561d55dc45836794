package transcode_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

func bytesField(number protowire.Number, value string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), value))
}

func varintField(number protowire.Number, value uint64) string {
	return string(protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), value))
}

func entry(key, value string) string {
	return bytesField(2, bytesField(1, key)+bytesField(2, value))
}

// What is taken of encodings other than the usual, and that it is written as the
// slow path does.
func TestEncodings(t *testing.T) {
	entries := func(n int) (all string) {
		for i := range n {
			all += entry(fmt.Sprint("k", i*37%100), "")
		}
		return all
	}
	for _, tt := range []struct {
		rule  string
		of    proto.Message
		wire  string
		taken bool
	}{
		{"nothing", &setpointv1.Scale{}, "", true},
		{"fields in order", &setpointv1.Scale{}, varintField(1, 3) + varintField(2, 0) + bytesField(3, "a"), true},
		{"zero that is default", &setpointv1.Scale{}, varintField(1, 0) + bytesField(3, ""), true},
		{"fields out of order", &setpointv1.Scale{}, varintField(2, 3) + varintField(1, 3), false},
		{"a field twice", &setpointv1.Scale{}, varintField(1, 3) + varintField(1, 4), false},
		{"an unknown field", &setpointv1.Scale{}, varintField(4, 3), false},
		{"field 0", &setpointv1.Scale{}, varintField(0, 3), false},
		{"a field of another type", &setpointv1.Scale{}, bytesField(1, "a"), false},
		{"a tag alone", &setpointv1.Scale{}, "\x08", false},
		{"a tag of several bytes", &setpointv1.Scale{}, "\x88\x80\x00\x03", true},
		{"a number of several bytes", &setpointv1.Scale{}, "\x08\x83\x80\x00", true},
		{"a number of ten bytes", &setpointv1.Scale{}, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", true},
		{"a number of more than 64 bits", &setpointv1.Scale{}, "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", false},
		{"a number cut off", &setpointv1.Scale{}, "\x08\x80", false},
		{"a number of more than 32 bits", &setpointv1.Scale{}, varintField(1, 1<<32+5), true},
		{"a negative number in 32 bits", &setpointv1.Scale{}, varintField(1, 1<<32-1), true},
		{"a boolean of 2", &setpointv1.InitContainer{}, varintField(2, 2), true},
		{"a text cut off", &setpointv1.Scale{}, "\x1a\x02a", false},
		{"a length without end", &setpointv1.Scale{}, "\x1a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01a", false},
		{"a length of several bytes", &setpointv1.Scale{}, "\x1a\x81\x00a", true},
		{"no UTF-8", &setpointv1.Scale{}, bytesField(3, "\xff"), false},
		{"UTF-8 cut off", &setpointv1.Scale{}, bytesField(3, "12345678\xe6\x97"), false},
		{"a surrogate", &setpointv1.Scale{}, bytesField(3, "\xed\xa0\x80"), false},
		{"a double", &setpointv1.LoadPoint{}, "\x11\x00\x00\x00\x00\x00\x00\xf0\x3f", true},
		{"a double cut off", &setpointv1.LoadPoint{}, "\x11\x00\x00\x00\x00\x00\x00\xf0", false},
		{"a double for less", &setpointv1.LoadPoint{}, "\x15\x00\x00\x00\x00", false},
		{"a list in two parts", &setpointv1.SelectorProblem{}, bytesField(3, "a") + bytesField(1, "b") + bytesField(3, "c"), false},
		{"a list", &setpointv1.SelectorProblem{}, bytesField(3, "a") + bytesField(3, "") + bytesField(3, "c"), true},
		{"a list, then what is before it", &setpointv1.SelectorProblem{}, bytesField(3, "a") + bytesField(2, "b"), false},
		{"a message in two parts", &setpointv1.PodReadyCondition{}, bytesField(2, varintField(1, 3)) + bytesField(2, varintField(2, 3)), false},
		{"entries in order", &setpointv1.ExternalMetric{}, entry("a", "1") + entry("b", "2"), true},
		{"entries out of order", &setpointv1.ExternalMetric{}, entry("b", "1") + entry("a\"", "2") + entry("", "3") + entry("aa", ""), true},
		{"a key twice", &setpointv1.ExternalMetric{}, entry("b", "1") + entry("a", "2") + entry("b", "2"), false},
		{"many entries", &setpointv1.ExternalMetric{}, entries(64), true},
		{"too many entries", &setpointv1.ExternalMetric{}, entries(65), false},
		{"an entry without a value", &setpointv1.ExternalMetric{}, bytesField(2, bytesField(1, "a")), false},
		{"an entry without a key", &setpointv1.ExternalMetric{}, bytesField(2, bytesField(2, "a")), false},
		{"an entry with its value first", &setpointv1.ExternalMetric{}, bytesField(2, bytesField(2, "a")+bytesField(1, "a")), false},
		{"an entry with two values", &setpointv1.ExternalMetric{}, bytesField(2, bytesField(1, "a")+bytesField(2, "a")+bytesField(2, "b")), false},
		{"an empty entry", &setpointv1.ExternalMetric{}, bytesField(2, ""), false},
		{"a key that is no UTF-8", &setpointv1.ExternalMetric{}, entry("\xff", ""), false},
		{"the epoch", &setpointv1.PodReadyCondition{}, bytesField(2, ""), true},
		{"the last instant", &setpointv1.PodReadyCondition{}, bytesField(2, varintField(1, 253402300799)+varintField(2, 999_999_999)), true},
		{"a later one", &setpointv1.PodReadyCondition{}, bytesField(2, varintField(1, 253402300800)), false},
		{"a second of parts", &setpointv1.PodReadyCondition{}, bytesField(2, varintField(2, 1_000_000_000)), false},
		{"negative parts", &setpointv1.PodReadyCondition{}, bytesField(2, varintField(2, 1<<64-1)), false},
		{"parts before seconds", &setpointv1.PodReadyCondition{}, bytesField(2, varintField(2, 5)+varintField(1, 5)), false},
		{"an instant cut off", &setpointv1.PodReadyCondition{}, bytesField(2, "\x08"), false},
		{"a longest duration", &setpointv1.RecommendOptions{}, bytesField(3, varintField(1, 315576000000)+varintField(2, 1)), true},
		{"a longer one", &setpointv1.RecommendOptions{}, bytesField(3, varintField(1, 315576000001)), false},
		{"a negative duration", &setpointv1.RecommendOptions{}, bytesField(3, varintField(2, 1<<64-5000)), true},
		{"signs that differ", &setpointv1.RecommendOptions{}, bytesField(3, varintField(1, 1)+varintField(2, 1<<64-1)), false},
		{"both of two that exclude each other", &setpointv1.BatchRecommendResult{}, bytesField(1, "") + bytesField(2, ""), false},
		{"a kind that is not taken", &setpointv1.BatchRecommendResult{}, bytesField(2, bytesField(3, "")), false},
		{"without it", &setpointv1.BatchRecommendResult{}, bytesField(2, varintField(1, 3)), true},
		{"a long text", &setpointv1.Scale{}, bytesField(3, strings.Repeat("long\n", 5000)), true},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			if taken := subjectOf(tt.of).toJSON(t, []byte(tt.wire)); taken != tt.taken {
				t.Errorf("taken: %t, want %t", taken, tt.taken)
			}
		})
	}
}
