// Possible values of the settings of a session.

import { signal } from "@preact/signals";
import { get } from "../api/client";
import type { ModelView, ToolList } from "../api/types";

interface Choices {
  models: ModelView[];
  packs: string[];
  toolsets: string[];
}

export const choices = signal<Choices>({ models: [], packs: [], toolsets: [] });
let isAsked = false;

/** Asks once for each load of the page. What cannot be listed can still be set in the terminal. */
export function loadChoices() {
  if (isAsked) return;
  isAsked = true;
  const failed = () => {
    isAsked = false;
  };
  get<{ models: ModelView[] }>("/v1/models")
    .then(({ models }) => {
      choices.value = { ...choices.value, models };
    })
    .catch(failed);
  get<ToolList>("/v1/tools")
    .then(({ toolsets, prompts }) => {
      choices.value = { ...choices.value, toolsets, packs: prompts };
    })
    .catch(failed);
}
