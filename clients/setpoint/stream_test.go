package setpoint_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
)

type recommendStream = setpointv1.RecommendationService_StreamRecommendServer

// script runs a server's side of each stream in turn, repeating the last one, and records when
// and where streams began.
type script struct {
	mu      sync.Mutex
	begun   time.Time
	streams []string
}

func (s *script) play(parts ...func(recommendStream) error) *fake {
	s.begun = time.Now()
	return &fake{stream: func(stream recommendStream) error {
		s.mu.Lock()
		name, _ := stream.Context().Value(serverKey{}).(string)
		s.streams = append(s.streams, fmt.Sprintf("%s after %v", name, time.Since(s.begun)))
		part := parts[min(len(s.streams), len(parts))-1]
		s.mu.Unlock()
		return part(stream)
	}}
}

// received reads n requests of a stream.
func received(stream recommendStream, n int) (all []*setpointv1.StreamRecommendRequest, err error) {
	for range n {
		req, err := stream.Recv()
		if err != nil {
			return all, err
		}
		all = append(all, req)
	}
	return all, nil
}

// ask sends n requests concurrently, each for as many replicas as its number, and returns the
// outcomes.
func ask(t *testing.T, s *setpoint.Stream, n int) []setpoint.Result {
	t.Helper()
	results := make([]setpoint.Result, n)
	var asking sync.WaitGroup
	for i := range n {
		asking.Go(func() {
			results[i].Response, results[i].Err = s.Recommend(t.Context(), queue(web, int32(i), 50))
		})
		synctest.Wait() // in order
	}
	asking.Wait()
	return results
}

func wantAnswers(t *testing.T, results []setpoint.Result) {
	t.Helper()
	for i, r := range results {
		if r.Err != nil || r.Response.GetDesiredReplicas() != int32(i) {
			t.Errorf("request %d got %v, %v", i, r.Response, r.Err)
		}
	}
}

func refuse(code codes.Code) func(recommendStream) error {
	return func(recommendStream) error { return problem(code) }
}

func TestAnswersOfAStreamAreMatchedInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s script
		client := s.play(func(stream recommendStream) error {
			all, err := received(stream, 10)
			slices.Reverse(all)
			for _, req := range all {
				if err := stream.Send(answerTo(req)); err != nil {
					return err
				}
			}
			if err != nil {
				return err
			}
			return echo(stream)
		}).serve(t, two)
		wantAnswers(t, ask(t, client.Stream(0), 10))
		if len(s.streams) != 1 {
			t.Errorf("streams began at %v, want one", s.streams)
		}
	})
}

func TestAStreamSendsNoMoreThanItMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s script
		var open, most, all int
		client := s.play(func(stream recommendStream) error {
			for {
				req, err := stream.Recv()
				if err != nil {
					return err
				}
				s.mu.Lock()
				open, all = open+1, all+1
				most = max(most, open)
				s.mu.Unlock()
				go func() {
					time.Sleep(time.Second)
					s.mu.Lock()
					defer s.mu.Unlock()
					open--
					_ = stream.Send(answerTo(req))
				}()
			}
		}).serve(t, two)
		stream := client.Stream(3)
		begun := time.Now()
		wantAnswers(t, ask(t, stream, 9))
		if most != 3 || all != 9 || time.Since(begun) != 3*time.Second {
			t.Errorf("%d of %d requests were in flight, and it took %v; want 3 of 9 in 3 s", most, all, time.Since(begun))
		}
		// A request that waits for its turn waits no longer than its caller.
		var asking sync.WaitGroup
		for range 3 {
			asking.Go(func() { _, _ = stream.Recommend(t.Context(), queue(web, 1, 50)) })
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		_, err := stream.Recommend(ctx, queue(web, 1, 50))
		wantCode(t, err, codes.DeadlineExceeded)
		asking.Wait()
		if all != 12 {
			t.Errorf("%d requests were sent, want not the one whose caller left", all)
		}
	})
}

// When a stream ends, unanswered requests go over another one, in order and with their request
// ids; answered ones do not.
func TestWhatIsUnansweredIsSentAgain(t *testing.T) {
	for name, end := range map[string]func(recommendStream) error{
		"when the server goes away":    refuse(codes.Unavailable),
		"when it just ends the stream": func(recommendStream) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s script
				var first, second []*setpointv1.StreamRecommendRequest
				f := s.play(func(stream recommendStream) error {
					var err error
					if first, err = received(stream, 6); err != nil {
						return err
					}
					for _, i := range []int{4, 1} {
						if err := stream.Send(answerTo(first[i])); err != nil {
							return err
						}
					}
					return end(stream)
				}, func(stream recommendStream) error {
					var err error
					if second, err = received(stream, 4); err != nil {
						return err
					}
					for _, req := range second {
						if err := stream.Send(answerTo(req)); err != nil {
							return err
						}
					}
					return echo(stream)
				})
				client := f.serve(t, two)
				connect(t, client, f, 2)
				s.begun = time.Now()
				f.recommend = silentOn(func(*fakeCall) bool { return false })
				time.AfterFunc(50*ms, func() { // after which it would be the first server's turn again
					if _, err := client.Recommend(t.Context(), queue(web, 3, 50)); err != nil {
						t.Error(err)
					}
				})
				wantAnswers(t, ask(t, client.Stream(0), 6))
				var got []int32
				for i, req := range second {
					n := req.GetRequest().GetScale().GetSpecReplicas()
					got = append(got, n)
					if id := req.GetRequest().GetRequestId(); id == "" || id != first[n].GetRequest().GetRequestId() {
						t.Errorf("request %d was sent again under the id %q", i, id)
					}
				}
				if !slices.Equal(got, []int32{0, 2, 3, 5}) {
					t.Errorf("sent again are %v", got)
				}
				if len(s.streams) != 2 || !strings.HasSuffix(s.streams[1], "after 100ms") || s.streams[0][0] == s.streams[1][0] {
					t.Errorf("streams began at %v, want the second after a delay and elsewhere", s.streams)
				}
			})
		})
	}
}

// A request to retry later is sent once, when it is due, whether or not its stream lasts until
// then; a request whose caller left is not sent.
func TestWhatIsDelayedWhenAStreamEndsIsSentOnce(t *testing.T) {
	for name, after := range map[string]time.Duration{"until the next stream": 0, "for longer": time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s script
				var sent []string
				var sending sync.Mutex
				client := s.play(func(stream recommendStream) error {
					all, err := received(stream, 3)
					if err != nil {
						return err
					}
					if err := stream.Send(&setpointv1.StreamRecommendResponse{Id: all[0].GetId(), Result: &setpointv1.StreamRecommendResponse_Error{
						Error: status.Convert(problem(codes.Aborted, comeBack(after))).Proto(),
					}}); err != nil {
						return err
					}
					time.Sleep(50 * ms)
					return problem(codes.Unavailable)
				}, func(stream recommendStream) error {
					for {
						req, err := stream.Recv()
						if err != nil {
							return err
						}
						sent = append(sent, fmt.Sprintf("%d after %v", req.GetRequest().GetScale().GetSpecReplicas(), time.Since(s.begun)))
						time.AfterFunc(3*time.Second, func() {
							sending.Lock() // a stream takes one at a time
							defer sending.Unlock()
							_ = stream.Send(answerTo(req))
						})
					}
				}).serve(t, two)
				stream := client.Stream(0)
				results := make([]setpoint.Result, 2)
				var asking sync.WaitGroup
				for i := range results {
					asking.Go(func() { results[i].Response, results[i].Err = stream.Recommend(t.Context(), queue(web, int32(i), 50)) })
					synctest.Wait()
				}
				ctx, cancel := context.WithTimeout(t.Context(), 10*ms)
				defer cancel()
				_, err := stream.Recommend(ctx, queue(web, 2, 50))
				wantCode(t, err, codes.DeadlineExceeded)
				asking.Wait()
				wantAnswers(t, results)
				want := []string{"1 after 150ms", "0 after 150ms"}
				if after > 0 {
					want = []string{"1 after 150ms", "0 after 1.1s"}
				}
				if !slices.Equal(sent, want) {
					t.Errorf("sent again were %v, want %v", sent, want)
				}
			})
		})
	}
}

// After a call returned nothing reads its request any more.
func TestRequestsAreTheCallersAgain(t *testing.T) {
	f := &fake{
		stream: echo,
		recommend: func(_ context.Context, call *fakeCall) (*setpointv1.RecommendResponse, error) {
			time.Sleep(time.Duration(call.number%5) * 100 * time.Microsecond)
			return &setpointv1.RecommendResponse{}, nil
		},
	}
	client := f.serve(t, two, setpoint.WithHedging(50*time.Microsecond, 3), setpoint.WithRetry(setpoint.Retry{BudgetReserve: 1 << 20}))
	stream := client.Stream(0)
	names := []string{"pod-a", "pod-bb", "pod-ccc"}
	for name, ask := range map[string]func(context.Context, *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error){
		"hedged calls": client.Recommend, "a stream": stream.Recommend,
	} {
		t.Run(name, func(t *testing.T) {
			var asking sync.WaitGroup
			for range 4 {
				asking.Go(func() {
					req := queue(web, 3, 50)
					for i := range 300 {
						req.Pods = append(req.Pods, &setpointv1.Pod{Name: names[i%len(names)]})
					}
					for i := range 60 {
						// Some callers leave, others get their answer.
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*i)*10*time.Microsecond)
						_, _ = ask(ctx, req)
						for n, pod := range req.GetPods() {
							pod.Name = names[(i+n)%len(names)]
						}
						cancel()
					}
				})
			}
			asking.Wait()
		})
	}
}

func TestAStreamThatIsSilentIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s script
		f := s.play(func(stream recommendStream) error {
			all, err := received(stream, 3)
			if err != nil {
				return err
			}
			time.Sleep(3 * time.Second)
			if err := stream.Send(answerTo(all[0])); err != nil {
				return err
			}
			<-stream.Context().Done()
			return nil
		}, echo)
		client := f.serve(t, two)
		connect(t, client, f, 2)
		s.begun = time.Now()
		stream := client.Stream(0)
		wantAnswers(t, ask(t, stream, 3))
		// Three seconds to the first answer, four more of silence.
		if len(s.streams) != 2 || !strings.HasSuffix(s.streams[1], "after 7.1s") || s.streams[0][0] == s.streams[1][0] {
			t.Errorf("streams began at %v", s.streams)
		}
		// Silence without unanswered requests is no failure.
		time.Sleep(time.Hour)
		wantAnswers(t, ask(t, stream, 3))
		if len(s.streams) != 2 {
			t.Errorf("streams began at %v", s.streams)
		}
	})
}

// A request that is too large fails alone: gRPC would end the stream, and with it all other requests.
func TestARequestThatIsTooLargeFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s script
		client := s.play(func(stream recommendStream) error {
			all, err := received(stream, 1)
			if err != nil {
				return err
			}
			time.Sleep(time.Second)
			return stream.Send(answerTo(all[0]))
		}).serve(t, two, setpoint.WithMaxMessageBytes(1000, 1<<20))
		stream := client.Stream(0)
		var asking sync.WaitGroup
		asking.Go(func() {
			if _, err := stream.Recommend(t.Context(), queue(web, 0, 50)); err != nil {
				t.Errorf("the other one got %v", err)
			}
		})
		synctest.Wait()
		large := queue(web, 1, 50)
		large.Pods = append(large.Pods, &setpointv1.Pod{Name: strings.Repeat("x", 1000)})
		_, err := stream.Recommend(t.Context(), large)
		wantCode(t, err, codes.ResourceExhausted)
		asking.Wait()
	})
}

// A server that takes less than the client sends ends the stream, and only the request that is too large fails.
func TestARequestThatIsTooLargeForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s script
		client := s.play(func(stream recommendStream) error {
			var all []*setpointv1.StreamRecommendRequest
			for {
				req, err := stream.Recv()
				if err != nil {
					return err
				}
				if size := proto.Size(req); size > 1000 {
					return status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. 1000)", size)
				}
				if all = append(all, req); len(all) < 5 {
					continue
				}
				for _, req := range all {
					if err := stream.Send(answerTo(req)); err != nil {
						return err
					}
				}
			}
		}).serve(t, two)
		stream := client.Stream(0)
		var asking sync.WaitGroup
		for i := range 5 {
			asking.Go(func() {
				if _, err := stream.Recommend(t.Context(), queue(web, int32(i), 50)); err != nil {
					t.Errorf("request %d got %v", i, err)
				}
			})
		}
		for n := range 6 { // more than there are attempts
			asking.Go(func() {
				large := queue(web, 1, 50)
				large.Pods = append(large.Pods, &setpointv1.Pod{Name: strings.Repeat("x", 1000+n)})
				_, err := stream.Recommend(t.Context(), large)
				wantCode(t, err, codes.ResourceExhausted)
			})
		}
		asking.Wait()
	})
}

// Answers that nobody asked for do not hide that others are missing.
func TestAStreamThatAnswersTwiceAndIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s script
		client := s.play(func(stream recommendStream) error {
			all, err := received(stream, 1)
			if err != nil {
				return err
			}
			for range 3 {
				if err := stream.Send(answerTo(all[0])); err != nil {
					return err
				}
			}
			<-stream.Context().Done()
			return nil
		}, echo).serve(t, two)
		stream := client.Stream(0)
		wantAnswers(t, ask(t, stream, 1))
		synctest.Wait()
		s.begun = time.Now()
		wantAnswers(t, ask(t, stream, 1))
		if len(s.streams) != 2 || !strings.HasSuffix(s.streams[1], "after 4.1s") {
			t.Errorf("streams began at %v, want the second after 4.1 s", s.streams)
		}
	})
}

func TestAStreamThatCannotBeOpened(t *testing.T) {
	for _, tt := range []struct {
		name    string
		err     error
		streams int
		took    time.Duration
	}{
		{"is tried again where that may help", problem(codes.Unavailable), 4, 700 * ms},
		{"is given up where it does not", problem(codes.Unauthenticated), 1, 0},
		{"such as with a service that has none", problem(codes.Unimplemented), 1, 0},
		{"or would help after the deadline only", problem(codes.ResourceExhausted, comeBack(time.Minute)), 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s script
				client := s.play(func(recommendStream) error { return tt.err }).serve(t, two)
				stream := client.Stream(0)
				for range 2 { // a stream that failed can be used again
					before, begun := len(s.streams), time.Now()
					_, err := stream.Recommend(t.Context(), queue(web, 3, 50))
					wantCode(t, err, status.Code(tt.err))
					if got, took := len(s.streams)-before, time.Since(begun); got != tt.streams || took != tt.took {
						t.Errorf("it was tried %d times in %v, want %d times in %v", got, took, tt.streams, tt.took)
					}
					time.Sleep(time.Minute)
				}
			})
		})
	}
	t.Run("because no server listens is unavailable", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var nowhere directory
			_, err := nowhere.client(t, two, setpoint.WithInsecure()).Stream(0).Recommend(t.Context(), queue(web, 3, 50))
			wantCode(t, err, codes.Unavailable)
		})
	})
}

func TestErrorsOfRequestsOfAStream(t *testing.T) {
	for _, tt := range []struct {
		name     string
		err      error
		attempts int
		took     time.Duration
	}{
		{"that may pass are tried again on it", problem(codes.Aborted), 4, 700 * ms},
		{"when the server says so", problem(codes.ResourceExhausted, comeBack(time.Second)), 4, 3700 * ms},
		{"not later than their callers' deadline", problem(codes.ResourceExhausted, comeBack(time.Minute)), 1, 0},
		{"others are not", problem(codes.InvalidArgument), 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s script
				attempts := map[string]int{}
				client := s.play(func(stream recommendStream) error {
					for {
						req, err := stream.Recv()
						if err != nil {
							return err
						}
						attempts[req.GetRequest().GetRequestId()]++
						answer := answerTo(req)
						if req.GetRequest().GetScale().GetSpecReplicas() == 1 {
							answer.Result = &setpointv1.StreamRecommendResponse_Error{Error: status.Convert(tt.err).Proto()}
						}
						if err := stream.Send(answer); err != nil {
							return err
						}
					}
				}).serve(t, two)
				begun := time.Now()
				results := ask(t, client.Stream(0), 3)
				if results[1].Err == nil || results[1].Err.Error() != tt.err.Error() || time.Since(begun) != tt.took {
					t.Errorf("got %v after %v, want it after %v", results[1].Err, time.Since(begun), tt.took)
				}
				results[1] = setpoint.Result{Response: &setpointv1.RecommendResponse{DesiredReplicas: 1}}
				wantAnswers(t, results)
				most := 0
				for _, n := range attempts {
					most = max(most, n)
				}
				if len(attempts) != 3 || most != tt.attempts || len(s.streams) != 1 {
					t.Errorf("attempts by id: %v, on streams %v", attempts, s.streams)
				}
			})
		})
	}
}

// An answer that can't be decoded is an error of its request alone, on a stream that goes on.
func TestAnAnswerOfAStreamThatCannotBeDecoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s script
		client := s.play(func(stream recommendStream) error {
			for {
				req, err := stream.Recv()
				if err != nil {
					return err
				}
				answer := answerTo(req)
				if req.GetRequest().GetScale().GetSpecReplicas() == 1 {
					answer.Result = nil
					answer.ProtoReflect().SetUnknown([]byte{2<<3 | 2, 100, 0xff}) // cut off within the response
				}
				if err := stream.Send(answer); err != nil {
					return err
				}
			}
		}).serve(t, two)
		results := ask(t, client.Stream(0), 4)
		if err := results[1].Err; status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "can't be decoded") {
			t.Errorf("got %v, want INTERNAL", err)
		}
		results[1] = setpoint.Result{Response: &setpointv1.RecommendResponse{DesiredReplicas: 1}}
		wantAnswers(t, results)
		if len(s.streams) != 1 {
			t.Errorf("streams began at %v, want one", s.streams)
		}
	})
}

// After its caller left, nothing reads a request any more, and its answer is dropped.
func TestACallerMayLeaveAStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s script
		client := s.play(func(stream recommendStream) error {
			all, err := received(stream, 1)
			if err != nil {
				return err
			}
			time.Sleep(2 * time.Second)
			if err := stream.Send(answerTo(all[0])); err != nil {
				return err
			}
			return echo(stream)
		}).serve(t, two)
		stream := client.Stream(1)
		req := queue(web, 7, 50)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := stream.Recommend(ctx, req)
		wantCode(t, err, codes.DeadlineExceeded)
		req.Scale.SpecReplicas = 8
		answer, err := stream.Recommend(t.Context(), req)
		if err != nil || answer.GetDesiredReplicas() != 8 {
			t.Errorf("got %v, %v", answer, err)
		}
	})
}

func TestClosing(t *testing.T) {
	for name, closing := range map[string]func(*setpoint.Client, *setpoint.Stream){
		"a stream":        func(_ *setpoint.Client, s *setpoint.Stream) { s.Close() },
		"a stream twice":  func(_ *setpoint.Client, s *setpoint.Stream) { s.Close(); s.Close() },
		"its client":      func(c *setpoint.Client, _ *setpoint.Stream) { _ = c.Close() },
		"both, one first": func(c *setpoint.Client, s *setpoint.Stream) { _ = c.Close(); s.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s script
				client := s.play(func(stream recommendStream) error { <-stream.Context().Done(); return nil }).serve(t, two)
				stream := client.Stream(2)
				var asking sync.WaitGroup
				for range 3 { // two are sent, one waits for its turn
					asking.Go(func() {
						_, err := stream.Recommend(t.Context(), queue(web, 3, 50))
						if status.Code(err) != codes.Canceled {
							t.Errorf("got %v", err)
						}
					})
				}
				synctest.Wait()
				closing(client, stream)
				asking.Wait()
				_, err := stream.Recommend(t.Context(), queue(web, 3, 50))
				wantCode(t, err, codes.Canceled)
			})
		})
	}
}
