// {{name}}: what a successor does about a node whose conductor died.
//
// An instance lives for one call, so nothing here is freed.

#include "take_over_plugin.h"

#include <stdlib.h>
#include <string.h>

typedef take_over_plugin_string_t string_t;
typedef exports_farrier_driver_take_over_step_t step_t;
typedef exports_farrier_driver_take_over_list_step_t list_step_t;
typedef exports_farrier_driver_take_over_observation_t observation_t;
typedef exports_farrier_driver_take_over_artefact_t artefact_t;

static bool ends_with(const string_t *text, const char *end) {
  size_t len = strlen(end);
  return text->len >= len && memcmp(text->ptr + text->len - len, end, len) == 0;
}

static void fail(step_t *step, const string_t *name) {
  static const char end[] = "` was interrupted and must not be repeated: check the server";
  string_t *text = &step->val.fail;
  text->len = 1 + name->len + strlen(end);
  text->ptr = malloc(text->len);
  if (text->ptr == NULL) abort();
  text->ptr[0] = '`';
  memcpy(text->ptr + 1, name->ptr, name->len);
  memcpy(text->ptr + 1 + name->len, end, strlen(end));
  step->tag = EXPORTS_FARRIER_DRIVER_TAKE_OVER_STEP_FAIL;
}

bool exports_farrier_driver_take_over_plan(exports_farrier_driver_take_over_borrow_node_t node, observation_t *observation,
                                           list_step_t *steps, exports_farrier_driver_take_over_error_t *error) {
  string_t state;
  farrier_driver_inventory_method_node_provision_state(node, &state);
  bool waiting = ends_with(&state, " wait") || ends_with(&state, "wait call-back");
  // Two for each artefact, and one at the end.
  step_t *step = calloc(2 * observation->artefacts.len + 1, sizeof(step_t));
  if (step == NULL) abort();
  steps->ptr = step;
  for (size_t i = 0; i < observation->artefacts.len; i++) {
    const artefact_t *artefact = &observation->artefacts.ptr[i];
    // The same bytes under the same name.
    step->tag = EXPORTS_FARRIER_DRIVER_TAKE_OVER_STEP_REGENERATE;
    step->val.regenerate = artefact->kind;
    step++;
    if (waiting && !artefact->in_slot) {
      step->tag = EXPORTS_FARRIER_DRIVER_TAKE_OVER_STEP_REINSERT;
      step->val.reinsert = artefact->kind;
      step++;
    }
  }
  if (observation->interrupted.is_some &&
      observation->interrupted.val.repeat == EXPORTS_FARRIER_DRIVER_TAKE_OVER_REPEAT_KIND_FAIL) {
    fail(step++, &observation->interrupted.val.name);
  } else if (observation->interrupted.is_some) {
    (step++)->tag = EXPORTS_FARRIER_DRIVER_TAKE_OVER_STEP_CONTINUE_INTERRUPTED_STEP;
  } else if (waiting) {
    (step++)->tag = EXPORTS_FARRIER_DRIVER_TAKE_OVER_STEP_WAIT_FOR_AGENT;
  }
  steps->len = step - steps->ptr;
  return true;
}
