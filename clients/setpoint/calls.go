package setpoint

import (
	"context"
	"iter"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Recommend returns the replica count of one target. If req has no request_id it sends a
// random one, without changing req. Hold the count on any error. To repeat the same
// evaluation after an error, set the request_id yourself.
func (c *Client) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	return c.recommendations.Recommend(ctx, req)
}

// ReportScale reports whether a recommended change was applied or failed.
func (c *Client) ReportScale(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	return c.recommendations.ReportScale(ctx, req)
}

// GetTarget returns a target with its history.
func (c *Client) GetTarget(ctx context.Context, name string) (*setpointv1.Target, error) {
	response, err := c.targets.GetTarget(ctx, &setpointv1.GetTargetRequest{Name: name})
	if err != nil {
		return nil, err
	}
	return response.GetTarget(), nil
}

// ListTargets returns the targets of clusters/{cluster}/namespaces/{namespace}, where "-"
// means all clusters or all namespaces. They are sorted by name and come without their
// history. It fetches pages as needed, and ends after an error.
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

// DeleteTarget deletes a target. NOT_FOUND: it did not exist; after a failed attempt of the
// same call, which may have deleted it, that counts as success.
func (c *Client) DeleteTarget(ctx context.Context, name string) error {
	return c.DeleteIncarnation(ctx, &setpointv1.DeleteTargetRequest{Name: name})
}

// DeleteIncarnation is DeleteTarget for one incarnation and cluster, which the request names
// by their uids. A later incarnation of the same name stays: the error is NOT_FOUND. So does
// another cluster's target: FAILED_PRECONDITION with the reason OTHER_CLUSTER.
func (c *Client) DeleteIncarnation(ctx context.Context, req *setpointv1.DeleteTargetRequest) error {
	_, err := c.targets.DeleteTarget(ctx, req)
	return err
}
