//go:build linux

package kubernetes

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint/answertest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// proxy is between an agent and the service. It forwards calls, and changes answers as told.
type proxy struct {
	setpointv1.UnimplementedRecommendationServiceServer
	setpointv1.UnimplementedTargetServiceServer

	recommendations setpointv1.RecommendationServiceClient
	targets         setpointv1.TargetServiceClient
	address         string

	mu      sync.Mutex
	tampers bool
	changes map[string]answertest.Change // by target
	partner map[string]string            // whose answer a target gets
	held    map[string]*heldAnswer       // answers that wait for their partner's
}

// heldAnswer waits for the answer that replaces it.
type heldAnswer struct {
	answer *setpointv1.RecommendResponse
	// instead receives the replacement; closed: there is none.
	instead chan *setpointv1.RecommendResponse
}

// newProxy starts an honest one, which ends with the test.
func newProxy(t *testing.T, s *service.Instance) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &proxy{
		recommendations: s.Recommendations(), targets: s.Targets(), address: listener.Addr().String(),
		changes: make(map[string]answertest.Change), partner: make(map[string]string), held: make(map[string]*heldAnswer),
	}
	server := grpc.NewServer()
	setpointv1.RegisterRecommendationServiceServer(server, p)
	setpointv1.RegisterTargetServiceServer(server, p)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) }) // ends with Stop
	t.Cleanup(func() {
		p.tamper(false)
		server.Stop()
		serving.Wait()
	})
	return p
}

// change has the answers about a target changed.
func (p *proxy) change(target string, change answertest.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes[target] = change
}

// swap has the answers about two targets take each other's place.
func (p *proxy) swap(a, b string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.partner[a], p.partner[b] = b, a
}

// tamper begins or ends all of that.
func (p *proxy) tamper(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tampers = on
	if on {
		return
	}
	for target, h := range p.held {
		h.instead <- h.answer
		delete(p.held, target)
	}
}

// pass returns the replacement of an answer; nil: none.
func (p *proxy) pass(ctx context.Context, target string, answer *setpointv1.RecommendResponse) *setpointv1.RecommendResponse {
	p.mu.Lock()
	if !p.tampers || answer == nil {
		p.mu.Unlock()
		return answer
	}
	if change := p.changes[target]; change != nil {
		change(answer)
	}
	partner := p.partner[target]
	if partner == "" {
		p.mu.Unlock()
		return answer
	}
	if other := p.held[partner]; other != nil {
		delete(p.held, partner)
		p.mu.Unlock()
		other.instead <- answer
		return other.answer
	}
	if before := p.held[target]; before != nil {
		close(before.instead) // of a question that was given up
	}
	h := &heldAnswer{answer: answer, instead: make(chan *setpointv1.RecommendResponse, 1)}
	p.held[target] = h
	p.mu.Unlock()
	select {
	case other := <-h.instead:
		return other
	case <-ctx.Done():
		return nil
	}
}

// Recommend implements setpointv1.RecommendationServiceServer.
func (p *proxy) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	answer, err := p.recommendations.Recommend(ctx, req)
	if err != nil {
		return nil, err
	}
	if answer = p.pass(ctx, req.GetTarget(), answer); answer == nil {
		return nil, context.Canceled
	}
	return answer, nil
}

// StreamRecommend implements setpointv1.RecommendationServiceServer.
func (p *proxy) StreamRecommend(agent grpc.BidiStreamingServer[setpointv1.StreamRecommendRequest, setpointv1.StreamRecommendResponse]) error {
	ctx, cancel := context.WithCancel(agent.Context())
	service, err := p.recommendations.StreamRecommend(ctx)
	if err != nil {
		cancel()
		return err
	}
	var targets sync.Map // by id of the message
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	running.Go(func() {
		for {
			asked, err := agent.Recv()
			if err != nil {
				_ = service.CloseSend()
				return
			}
			targets.Store(asked.GetId(), asked.GetRequest().GetTarget())
			if service.Send(asked) != nil {
				return
			}
		}
	})
	var sending sync.Mutex
	for {
		answered, err := service.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		running.Go(func() {
			if answered.GetResponse() != nil {
				target, _ := targets.Load(answered.GetId())
				answer := p.pass(ctx, target.(string), answered.GetResponse())
				if answer == nil {
					return
				}
				answered = &setpointv1.StreamRecommendResponse{Id: answered.GetId(), Result: &setpointv1.StreamRecommendResponse_Response{Response: answer}}
			}
			sending.Lock()
			defer sending.Unlock()
			_ = agent.Send(answered) // fails only once the stream has ended
		})
	}
}

// ReportScale implements setpointv1.RecommendationServiceServer.
func (p *proxy) ReportScale(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	return p.recommendations.ReportScale(ctx, req)
}

// DeleteTarget implements setpointv1.TargetServiceServer.
func (p *proxy) DeleteTarget(ctx context.Context, req *setpointv1.DeleteTargetRequest) (*setpointv1.DeleteTargetResponse, error) {
	return p.targets.DeleteTarget(ctx, req)
}
