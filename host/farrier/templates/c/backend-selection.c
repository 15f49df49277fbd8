// {{name}}: which backend takes an artefact.
//
// An instance lives for one call, so nothing here is freed.

#include "backend_selection_plugin.h"

#include <string.h>

typedef backend_selection_plugin_string_t string_t;
typedef exports_farrier_driver_backend_selection_candidate_t candidate_t;
typedef exports_farrier_driver_backend_selection_request_t request_t;
typedef exports_farrier_driver_backend_selection_choice_t choice_t;
typedef exports_farrier_driver_backend_selection_error_t error_t;

static bool usable(const candidate_t *candidate, const request_t *request) {
  return candidate->healthy && (!candidate->free_bytes.is_some || candidate->free_bytes.val >= request->size);
}

// Settings are JSON text: a string stands in quotation marks.
static bool is_quoted(const string_t *json, const string_t *text) {
  return json->len == text->len + 2 && memcmp(json->ptr + 1, text->ptr, text->len) == 0;
}

static void choose(choice_t *choice, const candidate_t *candidate, const char *reason) {
  choice->backend = candidate->id;
  backend_selection_plugin_string_dup(&choice->reason, reason);
}

bool exports_farrier_driver_backend_selection_select(exports_farrier_driver_backend_selection_borrow_node_t node,
                                                     request_t *request,
                                                     exports_farrier_driver_backend_selection_list_candidate_t *candidates,
                                                     choice_t *choice, error_t *error) {
  string_t pointer, preferred = {0};
  backend_selection_plugin_string_set(&pointer, "/prefer");
  bool wished = farrier_driver_config_get(&pointer, &preferred);
  const candidate_t *first = NULL;
  for (size_t i = 0; i < candidates->len; i++) {
    const candidate_t *candidate = &candidates->ptr[i];
    if (!usable(candidate, request)) continue;
    if (wished && is_quoted(&preferred, &candidate->id)) {
      choose(choice, candidate, "preferred by the site");
      return true;
    }
    if (first == NULL) first = candidate;
  }
  if (first != NULL) {
    choose(choice, first, "first healthy backend with room");
    return true;
  }
  error->tag = FARRIER_DRIVER_TYPES_ERROR_OTHER;
  backend_selection_plugin_string_dup(&error->val.other.code, "no-backend");
  backend_selection_plugin_string_dup(&error->val.other.message, "no healthy backend has room for the artefact");
  error->val.other.retry_after_ms.is_some = false;
  return false;
}
