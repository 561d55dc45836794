package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/bench/load"
	"github.com/setpoint-dev/setpoint/bench/request"
)

// largestAnswer is the size of the response to a large batch, in bytes.
const largestAnswer = 64 << 20

// Client has gRPC connections to a service.
type Client struct {
	conns []*grpc.ClientConn
	turn  *atomic.Int64 // the next connection of any caller; nil: a caller keeps to its own
}

// Dial opens that many connections.
func Dial(address string, connections int) (*Client, error) {
	return DialAll(slices.Repeat([]string{address}, connections))
}

// DialAll opens a connection to each of the addresses. Callers take turns with them, and a
// caller and so its targets keep to one.
func DialAll(addresses []string) (*Client, error) {
	c := &Client{}
	for _, address := range addresses {
		conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableRetry(),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(encoded{}), grpc.MaxCallRecvMsgSize(largestAnswer)))
		if err != nil {
			c.Close()
			return nil, err
		}
		c.conns = append(c.conns, conn)
	}
	return c, nil
}

// Close closes the connections.
func (c *Client) Close() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// Spread returns a client on the same connections whose calls take turns with them, whoever
// calls.
func (c *Client) Spread() *Client { return &Client{conns: c.conns, turn: new(atomic.Int64)} }

func (c *Client) conn(caller int) *grpc.ClientConn {
	if c.turn != nil {
		caller = int(c.turn.Add(1))
	}
	return c.conns[caller%len(c.conns)]
}

// Ask makes one call with encoding and decoding.
func (c *Client) Ask(ctx context.Context, method string, req, resp proto.Message) error {
	data, err := proto.Marshal(req)
	if err != nil {
		return err
	}
	var answer []byte
	if err := c.conns[0].Invoke(ctx, method, &data, &answer); err != nil {
		return err
	}
	return proto.Unmarshal(answer, resp)
}

// split gives each caller its part of the targets.
func split(set *request.Set, callers int) []*request.Part {
	parts := make([]*request.Part, callers)
	for i := range parts {
		parts[i] = set.Part(i, callers)
	}
	return parts
}

// Unary returns a load of single recommendations.
func (c *Client) Unary(set *request.Set, callers int) load.Call {
	buffers, parts := make([][]byte, callers), split(set, callers)
	return func(ctx context.Context, caller int) error {
		// A call with a response has been sent, so its memory can be reused.
		buffers[caller] = parts[caller].Append(buffers[caller][:0])
		var size int
		err := c.conn(caller).Invoke(ctx, setpointv1.RecommendationService_Recommend_FullMethodName, &buffers[caller], &size)
		if err != nil {
			buffers[caller] = nil
		}
		return err
	}
}

// Batch returns a load of batches. A caller must have more targets than a batch has requests.
func (c *Client) Batch(set *request.Set, callers, requests int) load.Call {
	buffers, answers, parts := make([][]byte, callers), make([][]byte, callers), split(set, callers)
	return func(ctx context.Context, caller int) error {
		buffers[caller] = parts[caller].AppendBatch(buffers[caller][:0], requests)
		err := c.conn(caller).Invoke(ctx, setpointv1.RecommendationService_BatchRecommend_FullMethodName, &buffers[caller], &answers[caller])
		if err != nil {
			buffers[caller] = nil
			return err
		}
		return checkBatch(answers[caller], requests)
	}
}

func checkBatch(answer []byte, requests int) error {
	refused, results := request.Refused(answer)
	if refused == 0 && results == requests {
		return nil
	}
	decoded := &setpointv1.BatchRecommendResponse{}
	if err := proto.Unmarshal(answer, decoded); err != nil {
		return err
	}
	for _, result := range decoded.GetResults() {
		if result.GetError() != nil {
			return fmt.Errorf("%d of %d results are errors: %s", refused, results, result.GetError().GetMessage())
		}
	}
	return fmt.Errorf("%d results for %d requests", results, requests)
}

// errRefused means that a response of a stream was an error.
var errRefused = errors.New("a request of a stream was answered with an error")
