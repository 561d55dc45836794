package server_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// Who takes the port of gRPC for that of REST, or the other way round, is told the right one.
func TestCallersAtTheOtherPortAreToldTheirs(t *testing.T) {
	t.Parallel()
	secure, client := servertest.Secured(t)
	for _, tt := range []struct {
		name        string
		change      func(*servertest.Setup)
		credentials credentials.TransportCredentials
		transport   *http.Transport
		scheme      string
	}{
		{"plain", func(*servertest.Setup) {}, insecure.NewCredentials(), &http.Transport{}, "http://"},
		{
			"TLS", secure, credentials.NewTLS(client),
			&http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}}, //nolint:gosec // of this test
			"https://",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, tt.change)
			conn, err := grpc.NewClient("passthrough:///"+s.HTTPAddress, grpc.WithTransportCredentials(tt.credentials))
			fatal.If(t, err)
			t.Cleanup(func() { _ = conn.Close() })
			_, err = setpointv1.NewRecommendationServiceClient(conn).Recommend(t.Context(), servertest.WebRequest(t))
			want := "this is the port of REST; gRPC is served at port " + port(t, s.GRPCAddress) + " (--grpc-address)"
			if status.Code(err) != codes.Unimplemented || status.Convert(err).Message() != want {
				t.Errorf("gRPC at the port of REST: %v", err)
			}
			stream, err := setpointv1.NewRecommendationServiceClient(conn).StreamRecommend(t.Context())
			if err == nil {
				_, err = stream.Recv()
			}
			if status.Convert(err).Message() != want {
				t.Errorf("a stream of gRPC at the port of REST: %v", err)
			}

			t.Cleanup(tt.transport.CloseIdleConnections)
			for method, body := range map[string]string{http.MethodGet: "", http.MethodPost: strings.Repeat("x", 8<<10), http.MethodDelete: ""} {
				request, err := http.NewRequestWithContext(t.Context(), method, tt.scheme+s.GRPCAddress+"/v1/"+servertest.Web, strings.NewReader(body))
				fatal.If(t, err)
				response, err := (&http.Client{Transport: tt.transport}).Do(request)
				if err != nil {
					t.Errorf("%s at the port of gRPC: %v", method, err)
					continue
				}
				var told struct{ Message string }
				err = json.NewDecoder(response.Body).Decode(&told)
				_ = response.Body.Close()
				want := fmt.Sprintf("this is the port of gRPC; REST is served at port %s (--rest-address)", port(t, s.HTTPAddress))
				if err != nil || response.StatusCode != http.StatusBadRequest || told.Message != want {
					t.Errorf("%s at the port of gRPC: %s, %q, %v", method, response.Status, told.Message, err)
				}
			}
		})
	}
}

func port(tb testing.TB, address string) string {
	tb.Helper()
	_, port, err := net.SplitHostPort(address)
	fatal.If(tb, err)
	return port
}
