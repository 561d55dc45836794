package restjson_test

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/restjson"
)

// BenchmarkUnmarshal compares the fast path with bare protojson, and shows the cost of
// a body that needs a second pass.
func BenchmarkUnmarshal(b *testing.B) {
	for _, pods := range []int{10, 1000} {
		good, numbers := request(pods, `"500m"`), request(pods, "0.5")
		wrong := bytes.ReplaceAll(good, []byte(`"Running"`), []byte("true"))
		b.Run(fmt.Sprintf("pods=%d/protojson", pods), func(b *testing.B) {
			measure(b, good, func(data []byte) error {
				return protojson.Unmarshal(data, &setpointv1.RecommendRequest{})
			})
		})
		b.Run(fmt.Sprintf("pods=%d/good", pods), func(b *testing.B) { measure(b, good, unmarshal) })
		b.Run(fmt.Sprintf("pods=%d/numbers", pods), func(b *testing.B) { measure(b, numbers, unmarshal) })
		b.Run(fmt.Sprintf("pods=%d/wrong", pods), func(b *testing.B) {
			measure(b, wrong, func(data []byte) error {
				if unmarshal(data) == nil {
					return fmt.Errorf("accepted")
				}
				return nil
			})
		})
	}
}

func unmarshal(data []byte) error {
	return restjson.Unmarshal(data, &setpointv1.RecommendRequest{})
}

func measure(b *testing.B, data []byte, decode func([]byte) error) {
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
