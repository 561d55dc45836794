package admission

import (
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/metadata"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// The metadata of random headers are those of the gateway's own function.
func TestMetadataIsTheGateways(t *testing.T) {
	t.Parallel()
	mux := runtime.NewServeMux(runtime.WithIncomingHeaderMatcher(ForwardedHeader))
	names := []string{
		"Traceparent", "Tracestate", "X-Request-Id", "User-Agent", "X-Forwarded-For", "X-Forwarded-Host", "Accept", "Content-Type",
		"Grpc-Metadata-User", "X-Request-Id-Bin", "Cookie",
	}
	values := []string{"", "a", "10.0.0.1, 10.0.0.2", "curl/8", "caf\u00e9", "a\tb", "\x7f", " ~ "}
	addresses := []string{"", "10.1.2.3:4567", "[fe80::1%eth0]:80", "10.1.2.3", "@", "[::1\u00e9]:1"}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		req := httptest.NewRequest(http.MethodPost, "/v1/targets:batchRecommend", http.NoBody)
		req.Host, req.RemoteAddr = values[r.IntN(len(values))], addresses[r.IntN(len(addresses))]
		for range r.IntN(8) {
			req.Header.Add(names[r.IntN(len(names))], values[r.IntN(len(values))])
		}
		before := req.Header.Clone()
		ctx, err := runtime.AnnotateIncomingContext(t.Context(), mux, req, "/setpoint.v1.RecommendationService/Recommend")
		fatal.If(t, err)
		want, _ := metadata.FromIncomingContext(ctx)
		got := RESTMetadata(req)
		if !maps.EqualFunc(got, want, slices.Equal) {
			t.Fatalf("of %v, host %q, address %q: %v, the gateway: %v", before, req.Host, req.RemoteAddr, got, want)
		}
		if !maps.EqualFunc(req.Header, before, slices.Equal) {
			t.Fatalf("headers %v became %v", before, req.Header)
		}
	}
}
