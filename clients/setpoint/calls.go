package setpoint

import (
	"context"
	"iter"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Recommend asks for the replica count of one target. A request without request_id
// is sent with a random one; req itself stays as it is. On any error the caller holds
// the count. Should the same evaluation be asked for once more after an error, the
// caller has to set the request_id itself.
func (c *Client) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	return c.recommendations.Recommend(ctx, req)
}

// ReportScale tells what became of a recommendation that changed the count.
func (c *Client) ReportScale(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	return c.recommendations.ReportScale(ctx, req)
}

// GetTarget returns what is kept of a target.
func (c *Client) GetTarget(ctx context.Context, name string) (*setpointv1.Target, error) {
	response, err := c.targets.GetTarget(ctx, &setpointv1.GetTargetRequest{Name: name})
	if err != nil {
		return nil, err
	}
	return response.GetTarget(), nil
}

// ListTargets returns the targets of clusters/{cluster}/namespaces/{namespace}, "-"
// standing for all of either, sorted by name and without their history. An error ends
// it. Pages are asked for as they are needed.
func (c *Client) ListTargets(ctx context.Context, parent string) iter.Seq2[*setpointv1.Target, error] {
	return func(yield func(*setpointv1.Target, error) bool) {
		req := &setpointv1.ListTargetsRequest{Parent: parent}
		for {
			page, err := c.targets.ListTargets(ctx, req)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, target := range page.GetTargets() {
				if !yield(target, nil) {
					return
				}
			}
			if page.GetNextPageToken() == "" {
				return
			}
			req = &setpointv1.ListTargetsRequest{Parent: parent, PageToken: page.GetNextPageToken()}
		}
	}
}

// DeleteTarget forgets a target. NOT_FOUND says that there was none; it is taken for
// success when an earlier attempt of this call failed, for that may have deleted it.
func (c *Client) DeleteTarget(ctx context.Context, name string) error {
	return c.DeleteIncarnation(ctx, &setpointv1.DeleteTargetRequest{Name: name})
}

// DeleteIncarnation is DeleteTarget for the incarnation and the cluster of the request's
// uids, as requests for recommendations named them: what is kept of a later one of the
// same name stays, and is NOT_FOUND; another cluster's stays, too, and is
// FAILED_PRECONDITION with the reason OTHER_CLUSTER.
func (c *Client) DeleteIncarnation(ctx context.Context, req *setpointv1.DeleteTargetRequest) error {
	_, err := c.targets.DeleteTarget(ctx, req)
	return err
}
