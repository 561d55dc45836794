package setpoint_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
)

func TestHedging(t *testing.T) {
	type attempts = func(context.Context, *fakeCall) (*setpointv1.RecommendResponse, error)
	first := func(call *fakeCall) bool { return call.number == 1 }
	after := func(took time.Duration, which func(*fakeCall) bool, err error) attempts {
		return func(ctx context.Context, call *fakeCall) (*setpointv1.RecommendResponse, error) {
			if which(call) {
				select {
				case <-time.After(took):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				if err != nil {
					return nil, err
				}
			}
			return &setpointv1.RecommendResponse{DesiredReplicas: int32(call.number)}, nil
		}
	}
	all := func(*fakeCall) bool { return true }
	hedged := []setpoint.Option{setpoint.WithHedging(50*ms, 2)}
	for _, tt := range []struct {
		name    string
		options []setpoint.Option
		answers attempts
		want    int32 // 0: an error of that code
		code    codes.Code
		took    time.Duration
		times   []time.Duration
	}{
		{"is off by default", nil, after(3*time.Second, first, nil), 1, 0, 3 * time.Second, []time.Duration{0}},
		{"sends nothing ahead of a quick answer", hedged, after(49*ms, all, nil), 1, 0, 49 * ms, []time.Duration{0}},
		{"takes the second answer if it comes first", hedged, after(3*time.Second, first, nil), 2, 0, 50 * ms, []time.Duration{0, 50 * ms}},
		{"takes the first answer if it comes first", hedged, after(60*ms, all, nil), 1, 0, 60 * ms, []time.Duration{0, 50 * ms}},
		{
			"sends no more than it may", []setpoint.Option{setpoint.WithHedging(50*ms, 3)}, after(time.Second, all, nil),
			1, 0, time.Second, []time.Duration{0, 50 * ms, 100 * ms},
		},
		{"waits for the others where one fails for now", hedged, after(60*ms, first, problem(codes.Unavailable)), 2, 0, 50 * ms, []time.Duration{0, 50 * ms}},
		{
			"leaves the delays after a failure to the retries", hedged, after(0, first, problem(codes.Unavailable)),
			2, 0, 100 * ms, []time.Duration{0, 100 * ms},
		},
		{"ends where one fails for good", hedged, after(60*ms, all, problem(codes.InvalidArgument)), 0, codes.InvalidArgument, 60 * ms, []time.Duration{0, 50 * ms}},
		{
			"stays within the budget", []setpoint.Option{setpoint.WithHedging(50*ms, 5), setpoint.WithRetry(setpoint.Retry{BudgetReserve: 1})},
			after(time.Second, all, nil), 1, 0, time.Second, []time.Duration{0, 50 * ms},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{recommend: tt.answers}
				client := f.serve(t, two, tt.options...)
				answer, err := client.Recommend(t.Context(), queue(web, 3, 50))
				wantCode(t, err, tt.code)
				if answer.GetDesiredReplicas() != tt.want {
					t.Errorf("got the answer of attempt %d, want that of %d", answer.GetDesiredReplicas(), tt.want)
				}
				if took := time.Since(f.begun); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				wantTimes(t, f, tt.times...)
			})
		})
	}
}

func TestWhatIsSentAheadGoesElsewhereUnderOneRequestID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cancelled := make(chan string, 1)
		f := &fake{recommend: func(ctx context.Context, call *fakeCall) (*setpointv1.RecommendResponse, error) {
			if call.number == 1 {
				<-ctx.Done()
				cancelled <- call.server
				return nil, ctx.Err()
			}
			return &setpointv1.RecommendResponse{DesiredReplicas: 5}, nil
		}}
		client := f.serve(t, two, setpoint.WithHedging(50*ms, 2))
		connect(t, client, f, 2)
		if answer, err := client.Recommend(t.Context(), queue(web, 3, 50)); err != nil || answer.GetDesiredReplicas() != 5 {
			t.Fatalf("got %v, %v", answer, err)
		}
		a, b := f.calls[0], f.calls[1]
		if a.server == b.server {
			t.Errorf("both attempts went to %s", a.server)
		}
		if a.req.GetRequestId() != b.req.GetRequestId() || a.req.GetRequestId() == "" {
			t.Errorf("the ids are %q and %q", a.req.GetRequestId(), b.req.GetRequestId())
		}
		if got := <-cancelled; got != a.server {
			t.Errorf("the attempt on %s was cancelled, want that on %s", got, a.server)
		}
	})
}

func TestWhatMustNotRunTwiceAtOnceIsNotSentAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{
			recommend: silentOn(func(call *fakeCall) bool { time.Sleep(time.Second); return false }),
			write:     func(int) error { time.Sleep(time.Second); return nil },
		}
		client := f.serve(t, two, setpoint.WithHedging(50*ms, 2))
		if err := client.DeleteTarget(t.Context(), web); err != nil {
			t.Error(err)
		}
		// gRPC writes the headers when an attempt ends.
		var header metadata.MD
		if _, err := setpointv1.NewRecommendationServiceClient(client.Conn()).Recommend(t.Context(), queue(web, 3, 50), grpc.Header(&header)); err != nil {
			t.Error(err)
		}
		if len(header) == 0 || len(f.times()) != 2 {
			t.Errorf("got the header %v after %d attempts of two calls", header, len(f.times()))
		}
	})
}
