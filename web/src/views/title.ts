import { useEffect } from "preact/hooks";
import { visible } from "../text/visible";

/** Sets the title of the document. Every view does: a view that sets none would keep that of the view before it. */
export function useTitle(words?: string) {
  useEffect(() => {
    document.title = words ? `${visible(words)} – aish` : "aish";
  }, [words]);
}
