package main

var directions = []string{"spec.behavior.scaleUp", "spec.behavior.scaleDown"}

func addBehaviorRules(root *schema) error {
	for _, direction := range directions {
		for field, change := range map[string]func(*schema){
			".stabilizationWindowSeconds": addTo(
				rule{cel: "self >= 0", message: "must be greater than or equal to zero"},
				rule{cel: "self <= 3600", message: "must be less than or equal to 3600"},
			),
			".selectPolicy": oneOf("Max", "Min", "Disabled"),
			".policies": addTo(
				rule{cel: "self.size() > 0", message: "must specify at least one Policy", reason: required},
			),
			".policies.[].type":  oneOf("Pods", "Percent"),
			".policies.[].value": addTo(rule{cel: "self > 0", message: "must be greater than zero"}),
			".policies.[].periodSeconds": addTo(
				rule{cel: "self > 0", message: "must be greater than zero"},
				rule{cel: "self <= 1800", message: "must be less than or equal to 1800"},
			),
			".tolerance": addTo(quantityRules("!self.isLessThan(quantity('0'))", "must be greater than or equal to 0")...),
		} {
			if err := at(root, direction+field, change); err != nil {
				return err
			}
		}
	}
	return nil
}
