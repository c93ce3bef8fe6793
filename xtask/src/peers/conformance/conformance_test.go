// The conformance tests of the Gateway API, as the project publishes them; flags say what is tested.
package conformance

import (
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

func TestConformance(t *testing.T) { conformance.RunConformance(t) }
