package client

import (
	"context"
	"fmt"
	"sync/atomic"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Watch opens a watch of decisions for each parent, and waits until all are open. It counts
// responses without decoding them. The streams end with the context.
func (c *Client) Watch(ctx context.Context, parents []string) (received *atomic.Int64, err error) {
	received = new(atomic.Int64)
	desc := &setpointv1.TargetService_ServiceDesc.Streams[0]
	for i, parent := range parents {
		stream, err := c.conn(i).NewStream(ctx, desc, setpointv1.TargetService_WatchDecisions_FullMethodName)
		if err != nil {
			return nil, err
		}
		data, err := proto.Marshal(&setpointv1.WatchDecisionsRequest{Parent: parent})
		if err != nil {
			return nil, err
		}
		var size int
		if err := stream.SendMsg(&data); err != nil {
			return nil, err
		}
		if err := stream.CloseSend(); err != nil {
			return nil, err
		}
		if err := stream.RecvMsg(&size); err != nil {
			return nil, fmt.Errorf("watch %d: %w", i, err)
		}
		go func() {
			var size int
			for stream.RecvMsg(&size) == nil {
				received.Add(1)
			}
		}()
	}
	return received, nil
}
